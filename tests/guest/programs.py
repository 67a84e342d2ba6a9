"""Programs of others, as they are, under `isobar sweep`: PyTorch's DDP and FSDP, Lightning, microsoft-aurora and DeepSpeed on CPUs.

    python3 tests/guest/programs.py --isobar build/isobar [--programs aurora] [--keep FOLDER]

Each of tests/guest/programs is swept over ranks, batches and more; the sweep is killed and taken up, one run is killed and
goes on from its own checkpoint, half of the runs predict the other half's steps by settings alone, and report and check
read the results. Needs a Python with PyTorch and the packages: .venv-packages, or ISOBAR_PACKAGES_PYTHON; a program whose
package is missing is left out. About eight minutes a program. Steps are read by
their tenth percentile, as `isobar fit --help` says for a machine that others use.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = pathlib.Path(os.environ.get("ISOBAR_PACKAGES_PYTHON", ROOT / ".venv-packages" / "bin" / "python"))
SCRIPTS = pathlib.Path(__file__).resolve().parent / "programs"
WORST = 0.10  # median error of the half that is held out
TORCHRUN = f"{PYTHON} -m torch.distributed.run --standalone --nproc-per-node {{ranks_on_host}}"


def batches(ranks, sizes):
    """Axes that vary together: samples of a step are those of all ranks."""
    both = [(r, m) for r in ranks for m in sizes]
    return {"gpus": [r for r, _ in both], "policy.micro_batch": [m for _, m in both],
            "train.global_batch": [r * m for r, m in both]}


PRINTED = {"run.reads": "step {step}: loss = {loss}", "run.checkpoint": "save/step-*.pt", "run.resume": "--resume {checkpoint}"}

# package, command, further settings, axes that vary together, further axes; and how a run is taken up
PROGRAMS = {
    "ddp": dict(
        package="torch",
        command=f"{TORCHRUN} {SCRIPTS}/ddp_script.py --batch {{policy.micro_batch}} --amp {{policy.amp}} --steps {{train.steps}} "
                "--save {out}/save {resume}",
        settings=PRINTED,
        zip=batches([1, 2], [2, 4, 6, 8, 12, 16]), axes={"policy.amp": ["none", "bf16"]}, steps=80),
    "fsdp": dict(
        package="torch",
        command=f"{TORCHRUN} {SCRIPTS}/fsdp_script.py --batch {{policy.micro_batch}} --reshard {{policy.zero}} "
                "--steps {train.steps} --save {out}/save {resume}",
        settings=PRINTED,
        zip=batches([1, 2], [1, 2, 3, 4, 6, 8]), axes={"policy.zero": [2, 3]}, steps=80),
    "lightning": dict(
        package="lightning",
        command=f"{PYTHON} {SCRIPTS}/lightning_script.py --devices {{ranks}} --batch_size {{policy.micro_batch}} "
                "--num_workers {data.workers} --max_steps {train.steps} --save {out}/save {resume}",
        settings={"run.reads": "lightning", "run.checkpoint": "save/*.ckpt", "run.resume": "--ckpt_path {checkpoint}"},
        zip=batches([1, 2], [8, 16, 24, 32, 48, 64]), axes={"data.workers": [0, 1]}, steps=40),
    "aurora": dict(
        package="aurora",
        command=f"{TORCHRUN} {SCRIPTS}/aurora_script.py --batch {{policy.micro_batch}} --steps {{train.steps}} "
                "--save {out}/save {resume}",
        settings=PRINTED,
        zip=batches([1, 2], range(1, 13)), axes={}, steps=120),
    "deepspeed": dict(
        package="deepspeed",
        command=f"{TORCHRUN} {SCRIPTS}/deepspeed_script.py --micro_batch {{policy.micro_batch}} --stage {{policy.zero}} "
                "--steps {train.steps} --save {out}/save {resume}",
        settings={"run.reads": "deepspeed", "run.checkpoint": "save/latest", "run.resume": "--resume"},
        zip=batches([1, 2], [2, 4, 6, 8]), axes={"policy.zero": [0, 1, 2]}, steps=60)}


class Study:
    def __init__(self, isobar, name, folder):
        self.isobar, self.name, self.folder, self.program = isobar, name, folder, PROGRAMS[name]
        self.results = folder / "results"
        p = self.program
        settings = {**p["settings"], "run.command": p["command"], "run.threads": 1, "run.hang_timeout": 120}
        (folder / "base.yaml").write_text(json.dumps({"train": {"steps": p["steps"], "global_batch": 8}}))
        (folder / "sweep.yaml").write_text(json.dumps({"base": "base.yaml", "set": settings, "zip": [p["zip"]], "axes": p["axes"]}))
        self.trials = len(p["zip"]["gpus"])
        for values in p["axes"].values():
            self.trials *= len(values)

    def call(self, *words, code=0, **more):
        done = subprocess.run([str(w) for w in (self.isobar, *words)], capture_output=True, text=True, timeout=1800, **more)
        if done.returncode not in (code if isinstance(code, tuple) else (code,)):
            sys.exit(f"{self.name}: {' '.join(map(str, words))} ended with {done.returncode}, not {code}:\n"
                     f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def require(self, holds, what):
        if not holds:
            sys.exit(f"{self.name}: {what}")

    def ended(self):
        return sorted(p for p in self.results.glob("**/result.jsonl") if '"run_end"' in p.read_text())

    def killed(self, words, until):
        """Starts a command and kills it, with nothing said, once `until` holds."""
        process = subprocess.Popen([str(w) for w in (self.isobar, *words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while not until():
            self.require(process.poll() is None and time.monotonic() < deadline, f"{words[0]} could not be killed in time")
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def sweep(self):
        words = ("sweep", self.folder / "sweep.yaml", "--results", self.results)
        self.killed(words, lambda: len(self.ended()) >= 3)
        before = {p: p.read_bytes() for p in self.ended()}
        self.call(*words)
        self.require(all(p.read_bytes() == b for p, b in before.items()), "a finished trial was run again")
        ends = [json.loads(p.read_text().splitlines()[-1]) for p in self.ended()]
        bad = [e for e in ends if e["status"] != "ok"]
        first = [p for p in self.ended() if not json.loads((p.parent / "trial.json").read_text()).get("repeats")]
        self.require(len(first) == self.trials and not bad, f"{len(first)} of {self.trials} trials, failed: {bad[:2]}")
        steps = {e["steps"] for e in ends}
        self.require(steps == {self.program["steps"]}, f"{self.program['steps']} steps were run, and {steps} counted")

    def is_taken_up(self):
        run = self.folder / "run"
        words = ["train", self.folder / "base.yaml"]
        values = {"run.command": self.program["command"], **self.program["settings"], "run.out": str(run), "layout.dp": 2,
                  "policy.micro_batch": 4, "train.steps": 4 * self.program["steps"], "run.hang_timeout": 120}
        for key, value in values.items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        pattern = self.program["settings"]["run.checkpoint"]
        self.killed(words, lambda: any(run.glob(pattern)) and len(steps_of(run)) > 30)
        before = len(steps_of(run))
        self.call(*words, "--resume", run)
        end = json.loads((run / "result.jsonl").read_text().splitlines()[-1])
        self.require(end["status"] == "ok" and end["steps"] == values["train.steps"], f"taken up it ended with {end}")
        again = steps_of(run)[before:]
        self.require(again and again[0] > 2, f"it went on from step {again[:1]}")

    def fit(self):
        self.call("fit", self.results, "-o", self.folder / "fit.json", "--holdout", "0.5", "--statistic", "p10")
        held = json.loads((self.results / "holdout.json").read_text())["held_out"]
        error = held["settings_median_error"]
        self.require(error <= WORST, f"the held-out half is {error:.1%} off in the median")
        return error

    def report(self):
        self.call("report", self.results, "-o", self.folder / "report")
        self.require((self.folder / "report" / "index.html").stat().st_size > 0, "no page")
        words = ("check", self.results, "--reference", self.folder / "reference.jsonl")
        self.call(*words, "--update")
        said = json.loads(self.call(*words, "--json", code=(0, 5)))  # one run each: undecided is 5
        self.require(said, "check said nothing")


def steps_of(run):
    file = run / "result.jsonl"
    lines = [json.loads(t) for t in file.read_text().splitlines() if t.endswith("}")] if file.exists() else []
    return [line["step"] for line in lines if line.get("event") == "step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ran = False
    for name in options.programs:
        probe = PYTHON.exists() and subprocess.run([PYTHON, "-c", f"import torch, {PROGRAMS[name]['package']}"], capture_output=True)
        if not probe or probe.returncode:
            print(f"SKIPPED: {PYTHON} has no PyTorch, or no package for {name}")
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = (options.keep or pathlib.Path(made)) / name
            folder.mkdir(parents=True)
            study = Study(pathlib.Path(options.isobar).resolve(), name, folder)
            begin, load = time.monotonic(), os.getloadavg()[0]
            study.is_taken_up()
            study.sweep()
            error = study.fit()
            study.report()
            print(f"{name}: {study.trials} trials; the held-out half is {error:.1%} off in the median "
                  f"({time.monotonic() - begin:.0f} s, load {load:.1f} before)", flush=True)
            ran = True
    if ran:
        print("passed")


if __name__ == "__main__":
    main()
