"""Our own nets recorded from PyTorch beside their kinds: parameters, FLOPs and PyTorch's step on an H100.

    python3 tests/import/torch_own.py --isobar build/isobar

Both are priced for PyTorch, compiled: a recorded net by its ops, a kind by Isobar's plan. Isobar's Aurora does less than the
published one: it cuts shifted windows that the other masks, and computes queries of levels once, not at each place; FLOPs
are compared without these. Needs a Python with PyTorch 2.6 or
later and microsoft-aurora: .venv-packages, or ISOBAR_PACKAGES_PYTHON.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

from packages_there import PYTHON, ROOT
from torch_packages import run

# configuration: inputs, further settings, precisions in which both do the same. Under autocast PyTorch casts weights and
# logits, which no kind counts: much of a language net's step.
NETS = {"vit-384": ("20x360x720", [], ["none", "bf16"]), "gpt2-124m": ("1024:int64", [], ["none"]),
        "aurora-small": ("{in_channels}x{img_height}x{img_width}",
                         ["net.fp32_ends=false", "net.img_height=192", "net.img_width=384", "net.spacing=0.9375"], [])}
BATCH, FLOPS, STEP = 8, 0.01, 0.03
OWN = ROOT / "tests" / "fixtures" / "traced" / "own_nets.py"


def asked(isobar, *words):
    done = run([isobar, *words, "--json"])
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def products(isobar, *words):
    """FLOPs of a step's products but those of attention and of the levels' queries."""
    lines = run([isobar, "plan", *words]).stdout.splitlines()
    return sum(float(m[1]) for line in lines if (m := re.search(r"([\d.e+]+) F ", line))
               and " attention" not in line and ".to_q/" not in line)


def sets(*settings):
    return [word for s in settings for word in ("--set", s)]


def faults_of(isobar, folder, name):
    inputs, settings, alike = NETS[name]
    config, out = ROOT / "configs" / "models" / f"{name}.yaml", folder / f"{name}.json"
    one = [f"policy.micro_batch={BATCH}", f"train.global_batch={BATCH}", *settings]
    net = asked(isobar, "config", "show", config, *sets(*one))["net"]
    os.environ["ISOBAR_OWN_NET"] = json.dumps(net)
    done = run([isobar, "import", f"{OWN}:build", "--inputs", inputs.format(**net), "-o", out, "--python", PYTHON])
    if done.returncode:
        return [f"is not recorded: {done.stderr}"]
    found = []
    ours = asked(isobar, "plan", config, "--totals", *sets(*one))
    theirs = asked(isobar, "plan", out, "--totals", *sets(*one[:2]))
    if ours["parameters"] != theirs["parameters"]:
        found.append(f"{theirs['parameters']} parameters, and the kind has {ours['parameters']}")
    flops = theirs["flops_step"] / ours["flops_step"] - 1
    print(f"{name}: {theirs['parameters']} parameters, FLOPs {flops:+.2%}", flush=True)
    if net["kind"] == "aurora":
        flops = products(isobar, out, *sets(*one[:2])) / products(isobar, config, *sets(*one)) - 1
        print(f"  but attention and queries of levels {flops:+.2%}", flush=True)
    if abs(flops) > FLOPS:
        found.append(f"FLOPs differ by {flops:+.2%}")
    for amp in ("none", "bf16"):
        of = ["--machine", "dgx-h100", "--engine", "pytorch-compiled"]
        kind = asked(isobar, "predict", config, *of, *sets(*one, f"policy.amp={amp}", "data.workers=64"))["step_s"]
        recorded = asked(isobar, "predict", out, *of, *sets(*one[:2], f"policy.amp={amp}"))["step_s"]
        print(f"  {amp}: {1e3 * recorded:.2f} ms recorded, {1e3 * kind:.2f} by its kind ({recorded / kind - 1:+.1%})", flush=True)
        if amp in alike and abs(recorded / kind - 1) > STEP:
            found.append(f"{amp} step {recorded / kind - 1:+.1%}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--nets", nargs="+", default=list(NETS))
    options = parser.parse_args()
    if not PYTHON.exists() or run([PYTHON, "-c", "import torch, aurora"]).returncode:
        print(f"SKIPPED: {PYTHON} has no PyTorch with microsoft-aurora")
        return
    failed = False
    with tempfile.TemporaryDirectory() as made:
        for name in options.nets:
            faults = faults_of(pathlib.Path(options.isobar).resolve(), pathlib.Path(made), name)
            print(f"{name}: {'; '.join(faults) or 'as its kind'}", flush=True)
            failed = failed or bool(faults)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
