# shellcheck shell=bash disable=SC2154
# Sourced by tests/slurm.sh: programs of others (run.command) as jobs. One is started once on each of one or two
# nodes, which meet at the first; one of its trials fails on the second node. Its submitter is killed, and it is
# taken up from its own checkpoint through several jobs. With torchrun (ISOBAR_TORCHRUN) also a real one, over Gloo.
guest_machine() {  # guest_machine FILE START MORE
  cat >"$work/$1" <<MACHINE
inherits: $PWD/configs/machines/example-2core.yaml
cluster: {scheduler: slurm, start: $2, ranks_per_node: 2, cores_per_node: 2, queue: debug, poll_s: 1, fence_s: 3, start_s: 3,
  max_jobs: 4$3}
MACHINE
}
guest_sweep() {  # guest_sweep FILE STEPS AXES MORE [WORD]
  cat >"$work/$1" <<SWEEP
base: $PWD/configs/models/vit-tiny.yaml
set:
  run.threads: 1
  run.command: "python3 $PWD/tests/slurm/guest.py --nodes {nodes} --node-rank {node_rank} --addr {master_addr} --port {master_port} --ranks-here {ranks_on_host} --steps {train.steps} --folder {out} --ms {train.lr} ${5:-} --fail \$([ {train.seed} = 7 ] && echo oom || echo no)"
  run.reads: "step {step} loss {loss} in {ms} ms"
  run.hang_timeout: 60
$4
steps: $2
timeout_s: 90
grace_s: 1
axes: $3
SWEEP
}
guest_run() {  # guest_run NAME SWEEP MACHINE [OPTION]
  "$ISOBAR" sweep "$work/$2" --results "$work/$1" --launcher slurm --machine "$work/$3" --json ${4:+"$4"} \
    >"$work/$1.json" 2>"$work/$1.err" &
  submitter=$!
  submitters+=("$submitter")
}
guest_machine guest-srun.yaml srun ""
guest_machine guest-mpi.yaml openmpi ""
guest_sweep guest.yaml 20 "{gpus: [1, 2, 4], train.seed: [0, 7]}" "  train.lr: 20"
for start in srun mpi; do
  guest_run "guest-$start" guest.yaml "guest-$start.yaml"
  if [[ "$start" == srun ]]; then
    until_true 60 "a step of a guest" grep -rqs '"step"' "$work/guest-srun/trials"
    kill -9 "$submitter"
    say "the submitter of the guests is killed"
    guest_run guest-srun guest.yaml guest-srun.yaml
  fi
  wait "$submitter" || { cat "$work/guest-$start.err" "$work/guest-$start"/trials/*/err >&2; exit 1; }
done
# 80 s of steps in jobs of 30 s: Slurm's limits are whole minutes, and their signal comes 60 s early at most
guest_machine guest-chain.machine.yaml srun ", retries: 1, max_time_s: 120, job_time_s: 120"
guest_sweep guest-chain.yaml 130 "{gpus: [4]}" "  train.lr: 700
  run.resume: --resume {checkpoint}
  run.checkpoint: step-*.ckpt" "{resume}"
guest_run guest-chain guest-chain.yaml guest-chain.machine.yaml
wait "$submitter" || { cat "$work/guest-chain.err" "$work/guest-chain"/trials/*/err >&2; exit 1; }
torchrun=""
if [[ -x "${ISOBAR_TORCHRUN:-}" ]]; then
  torchrun=1
  cat >"$work/torchrun.yaml" <<SWEEP
base: $PWD/configs/models/vit-tiny.yaml
set:
  net.depth: 4
  run.threads: 1
  run.command: >-
    env GLOO_SOCKET_IFNAME=lo $ISOBAR_TORCHRUN --nnodes {nodes} --node-rank {node_rank} --nproc-per-node {ranks_on_host}
    --master-addr {master_addr} --master-port {master_port} $PWD/bench/peers/ddp.py --global-batch {train.global_batch}
    --micro-batch {policy.micro_batch} --amp {policy.amp} --steps {train.steps}
  run.reads: "step {step} loss {loss} took {ms} ms"
steps: 8
timeout_s: 90
axes: {gpus: [1, 2, 4], policy.amp: [none, bf16], policy.micro_batch: [2]}
SWEEP
  guest_run torchrun torchrun.yaml guest-srun.yaml
  wait "$submitter" || { cat "$work/torchrun.err" "$work/torchrun"/trials/*/e* >&2; exit 1; }
fi
python3 - "$work" "$torchrun" <<'PY'
import glob, json, re, sys
work, torchrun = sys.argv[1:3]
wrong = []
def trials(name): return json.load(open(f"{work}/{name}.json"))["trials"]
for start in ("srun", "mpi"):
    for t in trials(f"guest-{start}"):
        run, ranks = f"{work}/guest-{start}/trials/{t['id']}", t["ranks"]
        nodes = 2 if ranks == 4 else 1
        want = "oom_device" if t["axes"]["train.seed"] == 7 else "ok"
        if t["class"] != want: wrong.append(f"{start}, {ranks} ranks, {t['axes']}: {t['class']} ({t['message']}), not {want}")
        if want != "ok" and nodes == 2 and not t["message"].startswith("node 1 (n"): wrong.append(f"{start}: {t['message']} does not name its node")
        said = open(f"{run}/output.txt").read() + (open(f"{run}/output-1.txt").read() if nodes == 2 else "")
        hosts = sorted(re.findall(r"^node (\d) of (\d) on (n[12])", said, re.M))
        if [h[0] for h in hosts] != ["0", "1"][:nodes] or len({h[2] for h in hosts}) != nodes: wrong.append(f"{start}, {ranks} ranks ran on {hosts}")
        if f" on {ranks} ranks" not in said: wrong.append(f"{start}: the nodes counted other ranks than {ranks}")
    print(f"guests by {start}: {json.load(open(f'{work}/guest-{start}.json'))['counts']}")
chain, = trials("guest-chain")
run = f"{work}/guest-chain/trials/{chain['id']}"
begun = [int(n) for n in re.findall(r"^node 0 .* from step (\d+)", open(f"{run}/output.txt").read(), re.M)]
events = [json.loads(line) for line in open(f"{run}/result.jsonl")]
resumed = [e for e in events if e["event"] == "resume"]
print(f"a guest through {chain['attempt']} jobs, begun from steps {begun}: {chain['class']}")
if chain["class"] != "ok" or chain["attempt"] < 2 or len(begun) != chain["attempt"] or begun[0] != 0 or begun != sorted(set(begun)) or len(resumed) != len(begun) - 1:
    wrong.append(f"the chain of a guest: {chain}, begun {begun}, resumed {resumed}")
if {e["step"] for e in events if e["event"] == "step"} != set(range(1, 131)): wrong.append("the chain of a guest left out a step")
if torchrun:
    print(f"torchrun over Gloo: {[(t['ranks'], t['axes']['policy.amp'], t['class'], t.get('step_s')) for t in trials('torchrun')]}")
    for t in trials("torchrun"):
        if t["class"] != "ok": wrong.append(f"torchrun, {t['axes']}: {t['class']} ({t['message']})")
for w in wrong: print("WRONG:", w)
sys.exit(len(wrong) > 0)
PY
say "programs of others over two nodes${torchrun:+, torchrun among them}"
