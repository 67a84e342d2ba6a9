# shellcheck shell=bash
# Sourced by tests/slurm.sh: one training over both nodes, through jobs that end by their time limits.
# Meanwhile its submitter is killed, a node drains, the job is requeued, and a node goes down. No start may be
# lost without a newer checkpoint (retries: 0), and the weights equal those of one run to the last bit. One
# job starts its ranks by srun, on one node: the PMIx folders of two nodes on one machine would collide.
chain_machine() {  # chain_machine FILE START MORE_ENVIRONMENT
  cat >"$work/$1" <<MACHINE
inherits: $PWD/configs/machines/example-2core.yaml
cluster: {scheduler: slurm, start: $2, queue: debug, poll_s: 1, fence_s: 3, start_s: 3, retries: 0,
  max_time_s: 300, job_time_s: 300, environment: {OMP_NUM_THREADS: 1$3}}
MACHINE
}
# Checkpoints take a second longer on this disk, so that no training ends before its limit is reduced.
slow=", LD_PRELOAD: $SLOW_DISK, ISOBAR_SLOW_DISK: 'fsync state.json 1 1000000 *'"
chain_machine slow.yaml openmpi "$slow"
chain_machine slow-srun.yaml "srun, start_options: [--mpi=pmix], ranks_per_node: 2" "$slow"
chain_machine quick.yaml openmpi ""
training=("$PWD/configs/models/mlp-emulator.yaml" --ranks 2 --set train.steps=4000 --set run.threads=1)
chain() {  # chain MACHINE: in the background
  "$ISOBAR" train "${training[@]}" --set train.checkpoint_every=10 --launcher slurm --machine "$work/$1" \
    --results "$work/chain" --json >"$work/chain.json" 2>"$work/chain.err" &
  submitter=$!
  submitters+=("$submitter")
}
chain_job() { [[ -d "$work/chain/jobs" ]] || return 0; squeue -h -o %i -n "$(paste -sd, <(find "$work/chain/jobs" -mindepth 1 -maxdepth 1 -printf '%f\n'))" ${1:+-t "$1"}; }
has_job() { [[ -n "$(chain_job "$1")" ]]; }
no_job() { [[ -z "$(chain_job "")" ]]; }
saved() { find "$work"/chain/trials/*/checkpoints -name 'step-*' -not -name '*.tmp' 2>/dev/null | wc -l; }
saved_more() { (($(saved) > $1)); }
trains() {  # trains WHAT: waits until a job runs and has written two more checkpoints
  until_true 90 "$1" has_job running
  until_true 60 "$1: checkpoints" saved_more "$(($(saved) + 1))"
}
cut() {  # cut: reduces the limit to a minute; Slurm signals the job within half a minute and then ends it
  job="$(chain_job running)"
  scontrol update jobid="$job" timelimit=1
}
is_over() { ! squeue -h -o %i | grep -qx "$1"; }

chain slow.yaml
trains "the chain's first job"
kill -9 "$submitter"
scontrol update nodename=n2 state=drain reason=test
cut
chain slow.yaml
say "a training's submitter is killed and given again, n2 drains, and job $job gets a limit of a minute"
until_true 90 "job $job ends by its limit" is_over "$job"
until_true 60 "the next job waits for the node" has_job pending
until_true 60 "n2 drained" node_is n2 drained
scontrol update nodename=n2 state=resume
say "job $job is over, after $(saved) checkpoints; n2 is back"

trains "the chain's second job"
job="$(chain_job running)"
scontrol requeue "$job"
until_true 60 "job $job gives way" has_job pending
say "job $job is requeued"
trains "the second life of job $job"
cut
until_true 90 "job $job ends by its limit" is_over "$job"
say "job $job is over, after $(saved) checkpoints"

trains "the chain's third job"
job="$(chain_job running)"
stop_daemon "$work/n2.pid" KILL
crash n2 "$job"
until_true 60 "n2 is seen to be down" node_is n2 down
start_node n2
say "n2 went down with all that ran there, and is back"
trains "what comes after job $job, or its second life"
cut
kill -9 "$submitter"
until_true 90 "job $job ends by its limit" no_job
say "job $job is over, after $(saved) checkpoints"

chain slow-srun.yaml
trains "a job of srun's"
cut
kill -9 "$submitter"
until_true 90 "job $job ends by its limit" no_job
say "job $job is over, after $(saved) checkpoints; the rest on a quick disk"
chain quick.yaml
code=0
wait "$submitter" || code=$?
((code == 0)) || { cat "$work/chain.err" "$work"/chain/jobs/*/out >&2; exit 1; }
"$ISOBAR" train "${training[@]}" --set train.checkpoint_every=4000 --set "run.out=$work/whole" >"$work/whole.log" 2>&1 ||
  { cat "$work/whole.log" >&2; exit 1; }

python3 - "$work" <<'PY'
import collections, glob, json, os, subprocess, sys
work = sys.argv[1]
wrong = []
summary = json.load(open(f"{work}/chain.json"))
trial, = summary["trials"]
run = f"{work}/chain/trials/{trial['id']}"
jobs = glob.glob(f"{work}/chain/jobs/*/job.json")
ends = [json.load(open(f"{run}/attempt-{n}/status.json")) for n in range(1, trial["attempt"])]
classes = collections.Counter(e["class"] for e in ends)
print(f"a training through {len(jobs)} jobs and {trial['attempt']} starts: {trial['class']}; before {dict(classes)}, "
      f"goes on from {[e['message'].split()[-1] for e in ends]}")
if trial["class"] != "ok" or len(jobs) < 5 or classes["timeout"] != 4: wrong.append("four jobs must end by their limit, and another well")
told = [e for e in ends if e["class"] == "timeout"]
if any(e["message"].split()[-1] != str(e["last_step"]) for e in told): wrong.append(f"a job ended without a checkpoint of its last step: {told}")
if len(ends) != 6 or classes["node_fail"] != 1: wrong.append(f"a requeue and a lost node are one start each: {ends}")
if not all(e["came_further"] for e in ends): wrong.append(f"a start that came no further: {ends}")
def losses(path):
    events = [json.loads(line) for line in open(f"{path}/result.jsonl")]
    return {e["step"]: e["loss"] for e in events if e["event"] == "step"}, sum(e["event"] == "step" for e in events)
mine, made = losses(run)
whole, steps = losses(f"{work}/whole")
if mine != whole or len(whole) != 4000: wrong.append("losses are not those of one run")
for name in ("model", "optimizer"):
    last = f"checkpoints/step-00004000/{name}.safetensors"
    if open(f"{run}/{last}", "rb").read() != open(f"{work}/whole/{last}", "rb").read(): wrong.append(f"{name} is not that of one run")
print(f"steps made: {made}, of {steps} in one go; weights and moments bit for bit")
if os.path.exists(f"{work}/slurmdbd.pid"):
    books = summary["accounting"]
    ids = ",".join(open(os.path.join(os.path.dirname(j), "id")).read().strip() for j in jobs)
    said = subprocess.run(["sacct", "-nPXD", "-o", "State,ElapsedRaw,NNodes", "-j", ids], capture_output=True, text=True, check=True).stdout.split()
    rows = [line.split("|") for line in said]
    took = sum(int(s) * int(n) for _, s, n in rows)
    print(f"accounting: {books['jobs']} jobs, {books['lives']} lives, {books['node_s'] / 3600:.3g} node hours; sacct: {[r[0] for r in rows]}")
    # A job that lost its node has another life, or a successor if Slurm saw it end before it saw the node down.
    if (books["jobs"], books["lives"], books["node_s"]) != (len(jobs), 7, took) or len(jobs) > 6: wrong.append(f"accounting: {books}, and sacct says {said}")
for w in wrong: print("WRONG:", w)
sys.exit(len(wrong) > 0)
PY
say "one training through its jobs"
