"""Memory of recorded nets of packages beside PyTorch's own tracker: eager, each block checkpointed or not.

    python3 tests/import/torch_memory.py --isobar build/isobar [--nets gpt2 swin] [--keep FOLDER]

A step with Adam of 8 samples on fake tensors, the second one: the tracker's peak is what the caching allocator would hand
out. Needs a Python with PyTorch 2.6 or later and the packages of tests/fixtures/traced/package_nets.py: .venv-packages, or
ISOBAR_PACKAGES_PYTHON. Files of an earlier torch_packages.py --keep FOLDER are used, others are recorded.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from packages_there import PYTHON, nets_there
from torch_packages import FILE, RECORDER, record, run

NETS = ["vit_l", "swin", "gpt2", "llama", "t5", "resnet50", "convnext", "unet"]
BATCH, WORST = 8, 0.05

# Prints the peak bytes of the second step.
TRACKED = """
import json, sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
sys.path[:0] = sys.argv[1:3]
import package_nets
from torch_record import make_fake, without_weights
name, batch, blocks = sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5])
net = package_nets.NETS[name]
fake, model = FakeTensorMode(allow_non_fake_inputs=True), without_weights(getattr(package_nets, name)).train()
make_fake(model, fake)
for path in blocks:
    parent, _, last = path.rpartition(".")
    within = model.get_submodule(parent)
    block = checkpoint_wrapper(within.get_submodule(last))
    if isinstance(within, (torch.nn.ModuleList, torch.nn.Sequential)) and last.isdigit():
        within[int(last)] = block
    else:
        setattr(within, last, block)
with fake:
    optimizer = torch.optim.Adam(model.parameters())
    inputs, named = [], {}
    for text in net.inputs.split():
        key, _, rest = text.rpartition("=")
        shape, _, dtype = rest.partition(":")
        x = torch.zeros([batch, *map(int, shape.split("x"))], dtype=getattr(torch, dtype or "float32"))
        named.update({key: x}) if key else inputs.append(x)
    target = torch.zeros(batch, dtype=torch.int64)

    def loss_of():
        y = model(*inputs, **named)
        y = getattr(y, "loss", y)
        if net.loss == "cross_entropy":
            return torch.nn.functional.cross_entropy(y, target)
        return y if y.dim() == 0 else y.float().square().mean()

    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for step in range(2):
            loss_of().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 0:
                tracker.reset_mod_stats()
    peak = tracker.get_tracker_snapshot("peak")
print(sum(kinds["Total"] for kinds in peak.values()))
"""


def planned(isobar, file, recompute):
    done = run([isobar, "plan", file, "--totals", "--json", "--set", f"policy.micro_batch={BATCH}", "--set",
                f"train.global_batch={BATCH}", "--set", f"policy.recompute={recompute}"])
    if done.returncode:
        sys.exit(f"{file} is not planned: {done.stderr}")
    return json.loads(done.stdout)["memory"]["arena"]


def tracked(name, blocks):
    done = run([PYTHON, "-c", TRACKED, FILE.parent, RECORDER, name, BATCH, json.dumps(blocks)])
    if done.returncode:
        sys.exit(f"{name} is not tracked: {done.stderr[-1500:]}")
    return int(done.stdout.splitlines()[-1])


def file_of(isobar, folder, name, net):
    out = folder / f"{name}.json"
    if not out.exists() and (why := record(isobar, out, name, net["inputs"], net["loss"])):
        sys.exit(why)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--nets", nargs="+", default=NETS)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    nets = nets_there("package_nets")
    isobar, failed = pathlib.Path(options.isobar).resolve(), False
    with tempfile.TemporaryDirectory() as made:
        for name in options.nets:
            if name not in nets:
                continue
            file = file_of(isobar, options.keep or pathlib.Path(made), name, nets[name])
            parts = [part["path"] for part in json.loads(file.read_text())["nets"]["fp32"]["parts"]]
            for recompute, blocks in (("none", []), ("full", parts[1:-1])):
                ours, theirs = planned(isobar, file, recompute), tracked(name, blocks)
                failed = failed or abs(ours / theirs - 1) > WORST
                print(f"{name}, {recompute}: {ours / 1e9:.3f} GB planned, {theirs / 1e9:.3f} tracked ({ours / theirs - 1:+.1%})",
                      flush=True)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
