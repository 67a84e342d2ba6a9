# shellcheck shell=bash
# Sourced by tests/slurm.sh: the emulator trains on a small pair of files over both nodes, and every line
# names its rank and node; then again with a file for each rank.
"$ISOBAR" data make-points "$work/points" >"$work/points.log"
cat >"$work/nodes.yaml" <<SWEEP
base: $PWD/configs/models/mlp-emulator.yaml
set:
  run.threads: 1
  data.train: "$work/points/ocean.nc,$work/points/atmosphere.nc"
  data.inputs: [sst, sss, tair, tsfc, hi, hs, sice, uocn, vocn, uatm, vatm, qref, flwdn, fswdn]
  data.targets: [aice]
steps: 20
timeout_s: 60
axes: {gpus: [2]}
SWEEP
for how in all files; do
  sweep "nodes-$how" nodes.yaml mpi.yaml "--rank-output=$how"
  wait "$submitter" || { cat "$work/nodes-$how.err" "$work/nodes-$how"/trials/*/err >&2; exit 1; }
done
python3 - "$work" <<'PY'
import collections, glob, json, re, sys
work = sys.argv[1]
wrong = []
for how in ("all", "files"):
    if json.load(open(f"{work}/nodes-{how}.json"))["counts"] != {"ok": 1}: wrong.append(f"--rank-output {how}: the trial is not ok")
tag = re.compile(r"\[rank (\d) (n[12])\] ?")
said = collections.defaultdict(list)
for name in ("out", "err"):
    for line in open(glob.glob(f"{work}/nodes-all/trials/*/{name}")[0]):
        m = tag.match(line)
        if not m: wrong.append(f"--rank-output all: a line of {name} without rank and host: {line!r}")
        else: said[m.groups()].append(line[m.end():])
steps = {who: sum(t.startswith("step ") for t in lines) for who, lines in said.items()}
if steps != {("0", "n1"): 20, ("1", "n2"): 20}: wrong.append(f"--rank-output all: steps by rank and host: {steps}")
files = {f[-len("rank-0000.log"):]: open(f).read() for f in glob.glob(f"{work}/nodes-files/trials/*/ranks/*")}
for rank, host in ((0, "n1"), (1, "n2")):
    text = files.get(f"rank-{rank:04}.log", "")
    if not text.startswith(f"[rank {rank} {host}]") or text.count("\nstep ") != 20: wrong.append(f"--rank-output files: rank {rank}: {text[:300]!r}")
if len(files) != 2: wrong.append(f"--rank-output files: {sorted(files)}")
for w in wrong: print("WRONG:", w)
print(f"over two nodes: {sum(map(len, said.values()))} lines of {sorted(said)}, {len(files)} files")
sys.exit(len(wrong) > 0)
PY
say "the emulator over both nodes, every line with rank and host"
