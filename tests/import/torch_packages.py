"""Nets of packages are recorded and planned as they are: FLOPs and parameters are PyTorch's, blocks are parts.

    python3 tests/import/torch_packages.py --isobar build/isobar [--nets gpt2 swin] [--keep FOLDER]

FLOPs are those of torch.utils.flop_counter for a step of another batch on fake tensors. Needs a Python with PyTorch 2.6 or
later and the packages of tests/fixtures/traced/package_nets.py: .venv-packages, or ISOBAR_PACKAGES_PYTHON; nets whose
package is missing are left out.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from packages_there import PYTHON, ROOT, TRACED, nets_there

FILE = TRACED / "package_nets.py"
RECORDER = ROOT / "bench" / "import"
BATCH = 5  # recordings are of 2, 3 and 4
# The blocks of each net: between its ends at least this number of parts
BLOCKS = {"vit_l": 24, "swin": 24, "gpt2": 12, "llama": 16, "mixtral": 32, "t5": 12, "aurora": 20, "graph": 7, "resnet50": 16,
          "convnext": 36, "unet": 16, "fno": 4}

# Prints FLOPs forward and backward of a step by PyTorch's own counter, and the model's parameters.
COUNTED = """
import json, sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
sys.path[:0] = sys.argv[1:3]
import package_nets
from torch_record import Record, Recorder, make_fake, without_weights
name, batch, amp = sys.argv[3], int(sys.argv[4]), sys.argv[5] == "bf16"
net = package_nets.NETS[name]
fake, model = FakeTensorMode(allow_non_fake_inputs=True), without_weights(getattr(package_nets, name)).train()
make_fake(model, fake)
with fake:
    inputs, named = [], {}
    for text in net.inputs.split():
        key, _, rest = text.rpartition("=")
        shape, _, dtype = rest.partition(":")
        x = torch.zeros([batch, *map(int, shape.split("x"))], dtype=getattr(torch, dtype or "float32"))
        named.update({key: x}) if key else inputs.append(x)
    forward, backward = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with Recorder(model, Record()), torch.no_grad():  # code that decides by its own constants runs with their values
        model(*inputs, **named)
    with forward, Recorder(model, Record()), torch.autocast("cpu", torch.bfloat16, enabled=amp):
        y = model(*inputs, **named)
        y = getattr(y, "loss", y)
        if net.loss == "cross_entropy":
            y = torch.nn.functional.cross_entropy(y, torch.zeros(batch, dtype=torch.int64))
        loss = y if y.dim() == 0 else y.float().square().mean()
    with backward:
        loss.backward()
print(json.dumps([forward.get_total_flops(), backward.get_total_flops(), sum(p.numel() for p in model.parameters())]))
"""


def run(arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=3600)


def record(isobar, file, name, inputs, loss):
    """Why the net is not recorded; "": it is, as `file`."""
    words = [*inputs.split(), *(["--loss", loss] if loss else [])]
    done = run([isobar, "import", f"{FILE}:{name}", "--inputs", *words, "-o", file, "--python", PYTHON])
    return f"{name} is not recorded: {done.stderr.strip()}" if done.returncode else ""


def at(size, batch):
    return size[0] + size[1] * batch if isinstance(size, list) else size


def faults_of(isobar, folder, name, net):
    """What differs, in words."""
    out = folder / f"{name}.json"
    if why := record(isobar, out, name, net["inputs"], net["loss"]):
        return [why]
    found = []
    recorded = json.loads(out.read_text())
    for precision in ("fp32", "bf16"):
        graph = recorded["nets"][precision]
        counted = run([PYTHON, "-c", COUNTED, FILE.parent, RECORDER, name, BATCH, precision])
        if counted.returncode:
            return [*found, f"PyTorch does not count it: {counted.stderr.strip()[-400:]}"]
        forward, backward, parameters = json.loads(counted.stdout.splitlines()[-1])
        for what, theirs in (("forward", forward), ("backward", backward)):
            ours = at(graph["flops"][what], BATCH)
            if ours != theirs:
                found.append(f"{precision} {what} FLOPs {ours}, and PyTorch counts {theirs} ({ours / theirs - 1:+.3%})")
    plan = run([isobar, "plan", out, "--totals", "--set", "policy.micro_batch=1", "--set", "train.global_batch=1"])
    if plan.returncode:
        return [*found, f"not planned: {plan.stderr.strip()}"]
    planned = int(re.search(r"([\d,]+) parameters|parameters +([\d,]+)", plan.stdout)[0].strip("parmets ").replace(",", ""))
    if planned != parameters:
        found.append(f"{planned} parameters are planned, and the model has {parameters}")
    blocks = len(recorded["nets"]["fp32"]["parts"]) - 2
    if blocks < BLOCKS[name]:
        found.append(f"{blocks} parts between the ends, and it has {BLOCKS[name]} blocks")
    return found


def search_faults(isobar, folder):
    """timm's ViT-g on 64 H100: one command, and a page."""
    out, page = folder / "vit_g.json", folder / "page"
    if why := record(isobar, out, "vit_g", "3x224x224", "cross_entropy"):
        return [why]
    done = run([isobar, "search", out, "--machine", "dgx-h100", "--gpus", "64", "--set", "train.global_batch=2048", "--set",
                "policy.amp=bf16", "-o", page])
    if done.returncode:
        return [f"not searched: {done.stderr.strip()}"]
    best = json.loads((page / "search.json").read_text())["layouts"][0]
    found = [] if (page / "index.html").exists() else ["no page was written"]
    if best["memory_gb"] > 80 or not 0 < best["step_s"] < 60:
        found.append(f"the best layout takes {best['step_s']} s and {best['memory_gb']} GB")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--nets", nargs="+")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    nets = nets_there("package_nets")
    failed = False
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or pathlib.Path(made)
        for name in options.nets or nets:
            begin = time.monotonic()
            faults = faults_of(pathlib.Path(options.isobar).resolve(), folder, name, nets[name])
            print(f"{name}: {'; '.join(faults) or 'as PyTorch counts'} ({time.monotonic() - begin:.0f} s)", flush=True)
            failed = failed or bool(faults)
        if "vit_l" in nets and not options.nets:
            faults = search_faults(pathlib.Path(options.isobar).resolve(), folder)
            print(f"vit_g: {'; '.join(faults) or 'searched on 64 H100'}", flush=True)
            failed = failed or bool(faults)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
