"""Steps of packages' nets in PyTorch, eager and compiled, beside predictions: by calibration, and after a run of another net.

    python3 tests/import/torch_times.py --isobar build/isobar [--machine calibrated.yaml] [--keep FOLDER]

Each net is recorded, trained by a loop of a user's own under `run.command`, and predicted; the first one's run is fitted
(`isobar fit`) for the second prediction of the others. No price was set by these nets. Needs a quiet machine, and a Python
with PyTorch and the packages: .venv-packages, or ISOBAR_PACKAGES_PYTHON; nets whose package is missing are left out.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from packages_there import PYTHON, TRACED, nets_there

FILE = TRACED / "timed_nets.py"
STEPS, WORST = 12, 0.15


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=1800)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Study:
    def __init__(self, options, folder):
        self.isobar, self.threads = pathlib.Path(options.isobar).resolve(), options.threads
        self.machine = options.machine or folder / "machine.yaml"
        self.folder, there = folder, nets_there("timed_nets", least=2)
        self.nets = {n: t for n, t in there.items() if not options.nets or n in options.nets}

    def calibrate(self):
        if not pathlib.Path(self.machine).exists():
            call(self.isobar, "calibrate", "-o", self.machine)

    def spec(self, name, compiled):
        """A run of the net by the user's loop."""
        net, file = self.nets[name], self.folder / f"{name}.json"
        if not file.exists():
            words = [*net["inputs"].split(), *(["--loss", net["loss"]] if net["loss"] else [])]
            call(self.isobar, "import", f"{FILE}:{name}", "--inputs", *words, "-o", file, "--python", PYTHON)
        batch, how = net["batch"], "compiled" if compiled else "eager"
        spec = {"net": {"kind": "traced", "file": str(file), "compiled": compiled},
                "policy": {"micro_batch": batch}, "train": {"global_batch": batch, "steps": STEPS},
                "run": {"threads": self.threads, "out": str(self.folder / how / name), "hang_timeout": 600, "reads": "lines",
                        "command": f"{PYTHON} {TRACED}/train_net.py {FILE}:{name} --batch {{policy.micro_batch}} --steps "
                                   f"{{train.steps}} --threads {{threads}}{' --compile' if compiled else ''}"}}
        path = self.folder / f"{name}-{how}.yaml"
        path.write_text(json.dumps(spec))
        return path

    def measured(self, name, compiled):
        """Median seconds of a step, warm-up left out."""
        out = self.folder / ("compiled" if compiled else "eager") / name
        if not (out / "result.jsonl").exists():
            call(self.isobar, "train", self.spec(name, compiled))
        return json.loads((out / "result.jsonl").read_text().splitlines()[-1])["step_s"]["median"]

    def predicted(self, name, compiled, machine):
        return json.loads(call(self.isobar, "predict", self.spec(name, compiled), "--machine", machine, "--json"))["step_s"]

    def compare(self, compiled):
        how, (known, *unseen) = "compiled" if compiled else "eager", self.nets
        first, fitted = self.measured(known, compiled), self.folder / f"fitted-{how}.yaml"
        call(self.isobar, "fit", self.folder / how / known, "--machine", self.machine, "-o", fitted)
        by = {"calibration": [], "and one run": []}
        print(f"{how}, fitted: {known} {1e3 * first:.1f} ms, by calibration "
              f"{self.predicted(known, compiled, self.machine) / first - 1:+.1%}", flush=True)
        for name in unseen:
            seconds = self.measured(name, compiled)
            errors = [self.predicted(name, compiled, m) / seconds - 1 for m in (self.machine, fitted)]
            for e, kept in zip(errors, by.values()):
                kept.append(abs(e))
            print(f"{how}, {name:14} {1e3 * seconds:7.1f} ms, predicted {errors[0]:+.1%}, with a run of {known} {errors[1]:+.1%}",
                  flush=True)
        medians = {k: statistics.median(v) for k, v in by.items()}
        print(f"{how}: median error of {len(unseen)} nets {', '.join(f'{m:.1%} ({k})' for k, m in medians.items())}", flush=True)
        return medians["and one run"] <= WORST


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--machine", help="measured now if it is left out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--nets", nargs="+", help="the first one is fitted")
    parser.add_argument("--keep", type=pathlib.Path, help="folder of runs and nets, which are used if they are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        study = Study(options, (options.keep or pathlib.Path(made)).resolve())
        study.calibrate()
        if not all([study.compare(compiled) for compiled in (False, True)]):
            sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
