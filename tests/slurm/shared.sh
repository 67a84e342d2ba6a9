# shellcheck shell=bash
# Sourced by tests/slurm.sh: NERSC's exercise, several trainings that share a node, each job with the cores of its
# rank. Curves are there while a training runs, with the tags of the tutorial's own figures, and each epoch has a line.
"$ISOBAR" data make "$work/era5" --channels 4 --height 32 --width 64 --samples-per-year 13 --train-years 2 >"$work/era5.log"
cat >"$work/exercise.yaml" <<RUN
inherits: $PWD/configs/models/vit-tiny.yaml
data: {train: $work/era5/train, valid: $work/era5/valid, channel_names: [u10m, v10m, t2m, sp]}
train: {global_batch: 4, epochs: 40, valid_every: epoch}
run: {threads: 1, tensorboard: true, hang_timeout: 60}
RUN
printf 'base: exercise.yaml\ntimeout_s: 100\ngrace_s: 1\nrepeat_contended: 0\naxes: {data.workers: [0, 1], policy.amp: [none, bf16]}\n' \
  >"$work/exercise.sweep.yaml"
machine share.yaml srun 2 ", queue: shared, cores_per_node: 2, exclusive: false, start_options: [--mpi=pmix], job_time_s: 10"
sed -i 's/queue: debug, //' "$work/share.yaml"
"$ISOBAR" sweep "$work/exercise.sweep.yaml" --results "$work/exercise" --launcher slurm --machine "$work/share.yaml" \
  --dry-run --json >"$work/exercise.preview"
sweep exercise exercise.sweep.yaml share.yaml
two_on_a_node() { [[ "$(squeue -h -t running -o '%N %C' | sort | uniq -c | awk '$1 >= 2 && $3 == 1' | wc -l)" -ge 1 ]]; }
until_true 60 "two jobs of one core each on one node" two_on_a_node
live() {  # a curve has values, and its training has not ended
  local trial
  for trial in "$work"/exercise/trials/*; do
    if grep -qs "Loss/valid" "$trial"/tensorboard/events* && ! grep -q run_end "$trial/result.jsonl"; then return 0; fi
  done
  return 1
}
until_true 60 "curves of a training that still runs" live
say "two trainings share a node, and their curves are there as they go"
wait "$submitter" || { cat "$work/exercise.err" "$work"/exercise/trials/*/err >&2; exit 1; }
python3 - "$work" <<'PY'
import glob, json, re, struct, sys
work = sys.argv[1]
wrong = []
summary = json.load(open(f"{work}/exercise.json"))
preview = json.load(open(f"{work}/exercise.preview"))["cluster"]
if summary["counts"] != {"ok": 4}: wrong.append(f"four trials: {summary['counts']}")
jobs = [json.load(open(f)) for f in glob.glob(f"{work}/exercise/jobs/*/job.json")]
planned = sorted((j["time_s"], sorted(j["trials"])) for j in preview["jobs"])
if planned != sorted((j["time_s"], sorted(t["id"] for t in j["trials"])) for j in jobs): wrong.append("the preview is not what was submitted")
if {j["share"] for j in jobs} != {0.5}: wrong.append(f"shares of a node: {[j['share'] for j in jobs]}")
def records(file):
    data, at = open(file, "rb").read(), 0
    while at + 12 <= len(data):
        (n,) = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + n]
        at += n + 16
figures = ["Loss/train", "Loss/valid", "RMSE(u10m)/train", "RMSE(u10m)/valid", "Learning Rate", "Avg iters per sec", "Visualization, t2m"]
for link in glob.glob(f"{work}/exercise/tensorboard/*"):
    events = [r for f in glob.glob(f"{link}/events*") for r in records(f)]
    for tag in figures:
        n = sum(bytes([len(tag)]) + tag.encode() in r for r in events)
        if n < 40: wrong.append(f"{link}: {tag} has {n} values in 40 epochs")
    lines = re.findall(r"^epoch +(\d+)/40 ", open(f"{link}/../out").read(), re.M)
    if lines != [str(i + 1) for i in range(40)]: wrong.append(f"{link}: lines of epochs {lines}")
if len(glob.glob(f"{work}/exercise/tensorboard/*")) != 4: wrong.append("a folder of curves for each of four trials")
for w in wrong: print("WRONG:", w)
print(f"on shared nodes: {len(jobs)} jobs, {len(figures)} tags in each of four folders")
sys.exit(len(wrong) > 0)
PY
say "NERSC's exercise on shared nodes is done"
