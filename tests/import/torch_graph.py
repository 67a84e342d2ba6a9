"""Nets written in PyTorch become files that plans are made of: what is recorded on fake tensors is what PyTorch computes.

    python3 tests/import/torch_graph.py --isobar build/isobar

FLOPs are those of torch.utils.flop_counter, saved bytes those that autograd keeps, both of a real step on real tensors of
another batch; parameters are the model's. What cannot be recorded or priced ends in one line and exit code 2. Needs a
Python with PyTorch 2.6 or later: .venv-peers, or ISOBAR_PEER_PYTHON.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = pathlib.Path(os.environ.get("ISOBAR_PEER_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
NETS = ROOT / "tests" / "fixtures" / "traced" / "nets.py"
BATCH = 5  # recordings are of 2, 3 and 4

# Prints FLOPs forward and backward, saved bytes and parameters of a real step.
REAL = """
import json, sys
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode
sys.path.insert(0, sys.argv[1])
import nets
batch, shape, amp = int(sys.argv[3]), [int(n) for n in sys.argv[4].split("x")], sys.argv[5] == "bf16"
model = getattr(nets, sys.argv[2])()
x = torch.randn(batch, *shape)
held = {p.untyped_storage().data_ptr() for p in [*model.parameters(), *model.buffers(), x]}
kept = {}
def keep(t):
    s = t.untyped_storage()
    if s.data_ptr() not in held:
        kept[s.data_ptr()] = (s.nbytes(), t)
    return t
forward, backward = FlopCounterMode(display=False), FlopCounterMode(display=False)
with saved_tensors_hooks(keep, lambda t: t):
    with forward, torch.autocast("cpu", torch.bfloat16, enabled=amp):
        y = model(x)
        target = torch.zeros(y.shape)
        held.add(target.untyped_storage().data_ptr())
        loss = torch.nn.functional.mse_loss(y.float() if amp else y, target)
with backward:
    loss.backward()
print(json.dumps([forward.get_total_flops(), backward.get_total_flops(), sum(n for n, _ in kept.values()),
                  sum(p.numel() for p in model.parameters())]))
"""


def run(arguments, **more):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=300, **more)


def at(size, batch):
    return size[0] + size[1] * batch if isinstance(size, list) else size


def check(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{what}: {ours}, and PyTorch has {theirs}")


def recorded(isobar, name, inputs, out, *more):
    return run([isobar, "import", f"{NETS}:{name}", "--inputs", inputs, "-o", out, "--python", PEER, *more])


def is_what_pytorch_computes(isobar, folder, name, inputs):
    out = folder / f"{name}.json"
    done = recorded(isobar, name, inputs, out)
    if done.returncode:
        sys.exit(f"{name} was not recorded: {done.stdout}{done.stderr}")
    net = json.loads(out.read_text())
    for precision in ("fp32", "bf16"):
        graph = net["nets"][precision]
        real = run([PEER, "-c", REAL, NETS.parent, name, BATCH, inputs, precision])
        if real.returncode:
            sys.exit(f"{name} does not train: {real.stderr}")
        forward, backward, saved, parameters = json.loads(real.stdout)
        check(f"{name} {precision} forward FLOPs", at(graph["flops"]["forward"], BATCH), forward)
        check(f"{name} {precision} backward FLOPs", at(graph["flops"]["backward"], BATCH), backward)
        if name != "unet" or precision != "bf16":  # of fake bf16 batch norms PyTorch halves the saved statistics
            check(f"{name} {precision} saved bytes", at(graph["saved_bytes"], BATCH), saved)
        plan = run([isobar, "plan", out, "--totals"])
        if plan.returncode:
            sys.exit(f"{name} is not planned: {plan.stderr}")
        check(f"{name} parameters", int(re.search(r"([\d,]+) parameters|parameters +([\d,]+)", plan.stdout)[0]
                                        .strip("parmets ").replace(",", "")), parameters)


def is_refused(isobar, folder, name, inputs, words, *more):
    done = recorded(isobar, name, inputs, folder / "refused.json", *more)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 2 or len(lines) != 1 or any(w not in lines[0] for w in words):
        sys.exit(f"{name} ended with {done.returncode}, not in one line with {words}: {done.stderr}{done.stdout}")
    if list(folder.glob("refused*")):
        sys.exit(f"{name} was refused and left a file")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    isobar = pathlib.Path(parser.parse_args().isobar).resolve()
    probe = run([PEER, "-c", "import torch; print(torch.__version__)"]) if PEER.exists() else None
    if not probe or probe.returncode:
        print(f"SKIPPED: {PEER} has no PyTorch")
        return
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        is_what_pytorch_computes(isobar, folder, "vit", "3x16x32")
        is_what_pytorch_computes(isobar, folder, "unet", "3x16x16")
        is_refused(isobar, folder, "unpriced", "4x4", ["linalg", "no price", "nets.py:"])
        is_refused(isobar, folder, "branching", "4", ["nets.py:", "value of a tensor"])
        is_refused(isobar, folder, "vit", "3xa", ["--inputs 3xa"])
        is_refused(isobar, folder, "vit", "3x16x30", ["nets.py:", "RuntimeError"])
        is_refused(isobar, folder, "absent", "3x16x32", ["has no absent()"])
    print("passed")


if __name__ == "__main__":
    main()
