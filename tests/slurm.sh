#!/usr/bin/env bash
# Sweeps through a real Slurm on this machine (one controller, two node daemons, munge): killed submitter, drained node,
# scancel, a node daemon killed in mid-job, time limits, a slow node. Every trial must end in the right class, with
# nothing lost and nothing run twice. Then a training over both nodes with every rank's lines, one through several
# jobs with short time limits, and programs of others (tests/slurm/). With slurmdbd and mariadb-server Slurm keeps
# accounts and forgets jobs soon after they end, which tests the use of sacct.
#
#   sudo tests/slurm.sh                  # about eleven minutes; prints a table
#   sudo ISOBAR_KEEP=1 tests/slurm.sh    # keeps the folder with configuration, logs and results
#
# Needs root, slurm-wlm and munge (Debian); cleans up after itself. ISOBAR, ISOBAR_FAKE_TRAIN and
# ISOBAR_SLOW_DISK_LIBRARY select other binaries, ISOBAR_TORCHRUN a torchrun for a sweep of PyTorch over Gloo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ISOBAR="${ISOBAR:-$PWD/build/isobar}"
FAKE="${ISOBAR_FAKE_TRAIN:-$PWD/build/fake_train}"
SLOW_DISK="${ISOBAR_SLOW_DISK_LIBRARY:-$PWD/build/tests/libslow_disk.so}"
skip() { echo "SKIPPED: $*"; exit 0; }
((EUID == 0)) || skip "a Slurm of one's own needs root"
for tool in slurmctld slurmd munged sbatch squeue mpiexec python3 unshare; do
  PATH="$PATH:/usr/sbin" command -v "$tool" >/dev/null || skip "$tool is not installed (slurm-wlm, munge)"
done
for binary in "$ISOBAR" "$FAKE" "$SLOW_DISK"; do [[ -x "$binary" ]] || { echo "build first: $binary is missing" >&2; exit 1; }; done
export PATH="$PATH:/usr/sbin"

# shellcheck source=tests/slurm/cluster.sh
source tests/slurm/cluster.sh

# ---- sweeps: real training for seeds below 100, faults of the stand-in above
cat >"$work/trainer" <<TRAINER
#!/usr/bin/env bash
# Real training, or the stand-in if the seed selects a fault; logs starts and ends independently of the sweep.
set -u
rank="\${OMPI_COMM_WORLD_RANK:-\${SLURM_PROCID:-0}}"
seed="\$(sed -n 's/^ *"seed": *\([0-9]*\).*/\1/p' "\$2")"
if [[ "\$rank" == 0 ]]; then
  exec 9>"$work/lock.\$ISOBAR_TRIAL"
  flock -n 9 || echo "overlap \$ISOBAR_TRIAL" >>"$TRIAL_LOG"
  echo "start \$ISOBAR_TRIAL" >>"$TRIAL_LOG"
fi
code=0
if ((seed > 100)); then
  if [[ "\$rank" == 0 ]]; then env -u OMPI_COMM_WORLD_RANK "$FAKE" train "\$2" --ranks 1 --set "\$6" || code=\$?; fi
else
  "$ISOBAR" "\$@" || code=\$?
fi
if [[ "\$rank" == 0 ]]; then echo "end \$ISOBAR_TRIAL \$code" >>"$TRIAL_LOG"; fi
exit "\$code"
TRAINER
chmod +x "$work/trainer"
machine limit.machine.yaml openmpi 1 ", retries: 0"
machine spare.yaml openmpi 1 ", retries: 0, preflight: true, spare_nodes: 1"
machine pmix.yaml srun 2 ", start_options: [--mpi=pmix], retries: 0, preflight: true"
base="base: $PWD/configs/models/vit-tiny.yaml
set: {run.threads: 1, train.global_batch: 4, run.hang_timeout: 60}
repeat_contended: 0"  # trials are counted
# 101 segv, 103 hang, 106 numeric, 107 bad_config, 108 never begins, 114 crawls: see tests/sweep/fault.h
printf '%s\nsteps: 40\ntimeout_s: 12\nhang_s: 8\ngrace_s: 1\naxes: {gpus: [1, 2], train.seed: [%s]}\n' "$base" \
  "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 101, 103, 106, 107, 108, 114" >"$work/forty.yaml"
printf '%s\nsteps: 30\ntimeout_s: 12\nhang_s: 8\ngrace_s: 1\norder: listed\naxes: {train.seed: [114, 1, 2]}\n' "$base" \
  >"$work/crash.yaml"
printf '%s\nsteps: 41\ntimeout_s: 200\nhang_s: 20\ngrace_s: 1\naxes: {train.seed: [114]}\n' "$base" >"$work/limit.yaml"
printf '%s\nsteps: 20\ntimeout_s: 60\naxes: {gpus: [1, 2], policy.amp: [none, bf16]}\n' "$base" >"$work/pmix.sweep.yaml"
printf '%s\nsteps: 20\ntimeout_s: 60\ngrace_s: 1\naxes: {train.seed: [0, 1]}\n' "$base" >"$work/spare.sweep.yaml"
printf '%s\nsteps: 300\ntimeout_s: 60\ngrace_s: 1\naxes: {train.seed: [150]}\n' "$base" >"$work/away.yaml"
ends() { grep -c '^end' "$TRIAL_LOG" 2>/dev/null || true; }
at_least() { (($(ends) >= $1)); }
touch "$TRIAL_LOG"
sweep forty forty.yaml mpi.yaml
until_true 30 "the first trials" at_least 2
kill -9 "$submitter"
say "submitter killed with $(squeue -h -o %i | wc -l) jobs waiting or running and $(ends) trials done"
sleep 1
sweep forty forty.yaml mpi.yaml
until_true 60 "the submitter follows the jobs again" grep -q jobs "$work/forty.err"
sleep 1

scontrol update nodename=n2 state=drain reason=test
say "n2 drains"
until_true 60 "a job on n1" is_running_on n1
sleep 2
cancel_on() { job="$(running_on "$1")" && [[ -n "$job" ]] && scancel "$job" 2>/dev/null; }
until_true 60 "a job on n1 that has not ended meanwhile" cancel_on n1
say "job $job cancelled"
until_true 60 "n2 drained" node_is n2 drained
scontrol update nodename=n2 state=resume
say "n2 is back"
until_true 60 "a job on n2" is_running_on n2
sleep 1
job="$(running_on n2)"
stop_daemon "$work/n2.pid" KILL
say "node daemon of n2 killed under job $job; what it had started lives on"
until_true 60 "n2 is seen to be down" node_is n2 down
start_node n2
say "node daemon of n2 is back"
code=0
wait "$submitter" || code=$?
say "the sweep ended with $code (1: what was cancelled waits for the next one)"
((code == 1)) || { cat "$work/forty.err" >&2; exit 1; }

if [[ "$accounting" ]]; then
  # No one observes the end of this job: it is killed before it can report, and the submitter has exited.
  sweep away away.yaml mpi.yaml --no-wait
  code=0
  wait "$submitter" || code=$?
  say "the submitter has left with $code"  # its result is judged below: no job, no id
  away="$(cat "$work"/away/jobs/*/id)"
  until_true 60 "the job whose end nobody sees" grep -rqs '"step"' "$work/away/trials"
  for pid in $(pgrep -f "sweep-job $work/away"); do kill -STOP "$pid"; done
  scancel "$away"
  say "job $away is cancelled while its pilot cannot say so"
fi
sweep limit limit.yaml limit.machine.yaml
limited="$submitter"
until_true 30 "the job without an end" pgrep -f "sweep-job $work/limit"
scontrol update jobid="$(squeue -h -o '%i' -t running | head -1)" timelimit=1
say "a job's time limit is cut to a minute"
sweep crash crash.yaml mpi.yaml
crashed="$submitter"
until_true 60 "a trial on the node that will go down" grep -rqs '"step"' "$work/crash/trials"
node="$(squeue -h -t running -n "$(basename "$work"/crash/jobs/*)" -o %N)"
stop_daemon "$work/$node.pid" KILL
crash "$node" "$(cat "$work"/crash/jobs/*/id)"
say "$node went down with all that ran there"
until_true 60 "$node is seen to be down" node_is "$node" down
start_node "$node"
wait "$crashed" || { cat "$work/crash.err" >&2; exit 1; }
say "the sweep over the node that went down is done"
sweep forty forty.yaml mpi.yaml
code=0
wait "$submitter" || code=$?
say "the sweep given again ended with $code"
((code == 0)) || { cat "$work/forty.err" >&2; exit 1; }
if [[ "$accounting" ]]; then
  until_true 60 "squeue forgets job $away" bash -c '[[ -z "$(squeue -h --states=all --format=%i --jobs='"$away"' 2>/dev/null)" ]]'
  sweep away away.yaml mpi.yaml
  wait "$submitter" || { cat "$work/away.err" >&2; exit 1; }
  say "job $away was forgotten by squeue; the sweep went on with what sacct said"
fi
stop_daemon "$work/n2.pid"
core="$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')"
start_node n2 "$core"  # its processes share one core with the load below
until_true 60 "n2 is idle" node_is n2 idle
loads=()
for _ in 1 2 3 4 5 6 7 8; do  # separate sessions, between which the kernel shares the core
  setsid taskset -c "$core" sh -c 'while :; do :; done' &
  loads+=("$!") submitters+=("$!")
done
sweep spare spare.sweep.yaml spare.yaml
code=0
wait "$submitter" || code=$?
kill "${loads[@]}"
((code == 0)) || { cat "$work/spare.err" "$work"/spare/jobs/*/out >&2; exit 1; }
stop_daemon "$work/n2.pid"
start_node n2
until_true 60 "n2 is idle" node_is n2 idle
say "two trials with a node to spare, one of two nodes slow, are done"
sweep pmix pmix.sweep.yaml pmix.yaml --rank-output=files
wait "$submitter" || { cat "$work/pmix.err" "$work"/pmix/jobs/*/out >&2; exit 1; }
say "four trials through srun --mpi=pmix are done"
wait "$limited" || { cat "$work/limit.err" >&2; exit 1; }
say "the limited job is over"

# shellcheck source=tests/slurm/shared.sh
source tests/slurm/shared.sh
# shellcheck source=tests/slurm/nodes.sh
source tests/slurm/nodes.sh
# shellcheck source=tests/slurm/chain.sh
source tests/slurm/chain.sh
# shellcheck source=tests/slurm/guest.sh
source tests/slurm/guest.sh

python3 - "$work" <<'PY'
import collections, glob, json, os, sys
work = sys.argv[1]
wrong = []
def summary(name): return json.load(open(f"{work}/{name}.json"))
expected = {101: "crash", 103: "hang", 106: "numeric", 107: "bad_config", 108: "launch_fail", 114: "timeout"}
forty = summary("forty")
print(f"\n{'class':<14}{'trials':>7}")
for name, n in sorted(forty["counts"].items()): print(f"{name:<14}{n:>7}")
if len(forty["trials"]) != 40: wrong.append(f"{len(forty['trials'])} trials, not 40")
for t in forty["trials"]:
    seed = t["axes"]["train.seed"]
    if t["class"] != expected.get(seed, "ok"):
        wrong.append(f"{t['id']} seed {seed} ranks {t['ranks']}: {t['class']} ({t['message']}), not {expected.get(seed, 'ok')}")
log = collections.defaultdict(list)
for line in open(f"{work}/trials.log"):
    word, trial, *rest = line.split()
    log[trial].append((word, rest))
t_class = [(t["id"], t["class"]) for t in forty["trials"]]
attempts = {t["id"]: t["attempt"] for t in forty["trials"]}
for trial, n in attempts.items():
    words = [w for w, _ in log[trial]]
    if "overlap" in words: wrong.append(f"{trial} ran twice at a time")
    good = [i for i, (w, r) in enumerate(log[trial]) if w == "end" and r == ["0"]]
    if good and "start" in words[good[0] + 1:]: wrong.append(f"{trial} ran again after it had ended well")
    if not 0 < words.count("start") <= n and dict(t_class)[trial] != "launch_fail":
        wrong.append(f"{trial}: {words.count('start')} starts and {n} attempts")
def states(name): return [json.load(open(f))["state"] for f in glob.glob(f"{work}/{name}/jobs/*/state.json")]
jobs = glob.glob(f"{work}/forty/jobs/*/job.json")
print(f"{len(jobs)} jobs: {dict(collections.Counter(states('forty')))}; trials with more than one attempt: "
      f"{sum(n > 1 for n in attempts.values())}")
if len(states("forty")) != len(jobs): wrong.append("a job is still open")
if not any(s.startswith("CANCELLED") for s in states("forty")): wrong.append("no job was seen cancelled")
crash = summary("crash")
lives = [line for f in glob.glob(f"{work}/crash/jobs/*/out") for line in open(f) if line.startswith("life 2")]
before = [json.load(open(f))["class"] for f in glob.glob(f"{work}/crash/trials/*/attempt-1/status.json")]
print(f"node down: {crash['counts']}, the trial that ran there: first {before}, lives of its job: {1 + len(lives)}")
if crash["counts"] != {"ok": 2, "timeout": 1} or before != ["node_fail"] or len(lives) != 1:
    wrong.append("a node that goes down must cost one attempt of one trial, and its job goes on")
kept = [json.load(open(f))["class"] for f in glob.glob(f"{work}/forty/trials/*/attempt-*/status.json")]
print(f"earlier attempts: {dict(collections.Counter(kept))}")
limit = summary("limit")["trials"][0]
print(f"time limit of the job: {limit['class']} ({limit['message']})")
if limit["class"] != "timeout": wrong.append("the job's time limit gave " + limit["class"])
pmix = summary("pmix")["counts"]
flown = [json.load(open(f))["nodes"] for f in glob.glob(f"{work}/pmix/jobs/*/preflight.json")]
if not flown or any(n["matrix_flops_s"] < 1e8 or n["copy_bytes_s"] < 1e8 for f in flown for n in f): wrong.append(f"preflight: {flown}")
else: print(f"preflight: {flown[0][0]['matrix_flops_s']:.3g} FLOP/s, {flown[0][0]['copy_bytes_s']:.3g} B/s copied on {flown[0][0]['host']}")
spare = [json.load(open(f))["nodes"] for f in glob.glob(f"{work}/spare/jobs/*/preflight.json")]
left_out = [line.strip() for f in glob.glob(f"{work}/spare/jobs/*/out") for line in open(f) if line.startswith("slow node")]
where = {p["node"] for f in glob.glob(f"{work}/spare/trials/*/launch_map.json") for p in json.load(open(f))}
print(f"two nodes: {[(n['host'], round(n['matrix_flops_s'] / 1e9, 1), round(n['link_bytes_s'] / 1e9, 2)) for f in spare for n in f]} "
      f"(GFLOP/s, GB/s), {left_out}")
if [len(n) for n in spare] != [2] or any(n["link_bytes_s"] < 1e6 for f in spare for n in f): wrong.append(f"preflight of two nodes: {spare}")
if len(left_out) != 1 or not left_out[0].startswith("slow node n2, left out") or where != {"n1"}:
    wrong.append(f"the slow node must be named and left out: {left_out}, trials on {where}")
if os.path.exists(f"{work}/slurmdbd.pid"):
    books = forty["accounting"]
    print(f"accounting: {books}")
    if not books["jobs"] == len(jobs) <= books["lives"] or not books["node_s"] > 10: wrong.append(f"accounting of {len(jobs)} jobs: {books}")
    lives = [l["state"] for f in glob.glob(f"{work}/crash/jobs/*/accounting.json") for l in json.load(open(f))["lives"]]
    print(f"accounting of the job whose node went down: {lives}")
    if lives != ["NODE_FAIL", "COMPLETED"]: wrong.append(f"accounting of a requeued job: {lives}")
    away = summary("away")
    first = [json.load(open(f))["message"] for f in glob.glob(f"{work}/away/trials/*/attempt-1/status.json")]
    print(f"a job that squeue forgot: {sorted(states('away'))}, its trial: first {first}, then {away['counts']}")
    if away["counts"] != {"ok": 1} or not any(s.startswith("CANCELLED by") for s in states("away")) or "CANCELLED by" not in first[0]:
        wrong.append("sacct's word on a forgotten job did not arrive")
if pmix != {"ok": 4}: wrong.append(f"srun --mpi=pmix: {pmix}")
said = {f: open(f).read() for f in glob.glob(f"{work}/pmix/trials/*/ranks/rank-*.log")}
print(f"--rank-output files: {len(said)} files of {len(glob.glob(f'{work}/pmix/trials/*'))} trials")
if len(said) != 6 or any(not t.startswith(f"[rank {int(f[-8:-4])} ") or t.count("\nstep ") != 20 for f, t in said.items()):
    wrong.append(f"the ranks' files of 2 trials of one rank and 2 of two: {sorted(said)}")
if os.path.exists(f"{work}/pwned"): wrong.append("a configuration's words reached a shell")
for w in wrong: print("WRONG:", w)
sys.exit(len(wrong) > 0)
PY
say "all as it should be"
