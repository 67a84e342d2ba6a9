"""Weights and gradients of two runs against each other, from their checkpoints."""

import json
import math
import struct

from session import Trouble

MOST = 20000  # elements of a tensor that are compared
# Largest relative differences of gradients and of weights after some steps: |a - b| / |b| over all tensors. A single
# tensor may differ ten times as much. fp32 differs by the order of sums, others by rounding to 10, 7 and 10 bits.
TOLERANCES = {"none": (1e-4, 1e-5), "tf32": (1e-2, 1e-3), "bf16": (3e-2, 3e-3), "fp16": (1e-2, 1e-3)}
SMALL = 1e-2  # of the norm of all tensors: smaller ones are measured by it, since a zero gradient has noise only


def tensors(file):
    """{name: elements}, of long tensors every n-th one."""
    with file.open("rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        begin, found = f.tell(), {}
        for name, t in head.items():
            if name == "__metadata__" or t["dtype"] != "F32":
                continue
            first, last = t["data_offsets"]
            f.seek(begin + first)
            x = memoryview(f.read(last - first)).cast("f")
            found[name] = x[::max(1, len(x) // MOST | 1)].tolist()
    return found


def norm(x):
    return math.sqrt(sum(e * e for e in x))


def compare(ours, reference):
    """(difference of all, largest difference of a tensor, its name)"""
    if ours.keys() != reference.keys() or not ours:
        raise Trouble("the runs have different tensors")
    off = {n: norm([x - y for x, y in zip(ours[n], reference[n])]) for n in ours}
    size = {n: norm(reference[n]) for n in ours}
    whole = norm(size.values())
    if not (whole > 0 and math.isfinite(norm(off.values()))):
        raise Trouble("the tensors are zero or not finite")
    each = {n: off[n] / max(size[n], SMALL * whole) for n in ours}
    worst = max(each, key=each.get)
    return norm(off.values()) / whole, each[worst], worst


def checkpoint(run):
    """The last checkpoint's gradients (the optimizer's first moments) and weights."""
    folder = max((run["out"] / "checkpoints").glob("step-*"))
    moments = tensors(folder / "optimizer.safetensors")
    return {"gradients": {n: x for n, x in moments.items() if n.startswith(("exp_avg.", "momentum."))},
            "weights": tensors(folder / "model.safetensors")}


def with_gradients(state):
    """Weights whose tensor has a gradient above rounding to 16 bits: Adam takes a full step whatever its size, so that in
    others the weights say how the noise falls."""
    size = {n.split(".", 1)[1]: norm(x) for n, x in state["gradients"].items()}
    least = SMALL * norm(size.values())
    return {n: x for n, x in state["weights"].items() if size.get(n, 0) >= least}


def hold(s, found, name, run, reference, amp):
    """Reports how far a run's gradients and weights are from the reference's; raises Trouble where too far."""
    ours, theirs, bad, told = checkpoint(run), checkpoint(reference), [], []
    found[name] = {}
    if amp != "none":
        theirs["weights"] = with_gradients(theirs)
        ours["weights"] = {n: ours["weights"][n] for n in theirs["weights"]}
    for (what, allowed) in zip(("gradients", "weights"), TOLERANCES[amp]):
        whole, most, tensor = compare(ours[what], theirs[what])
        found[name][what] = {"difference": whole, "worst_tensor": most, "tensor": tensor, "tolerance": allowed}
        told.append(f"{what} {whole:.1e}, at most {most:.1e} ({tensor}), tolerance {allowed:.0e}")
        if not (whole < allowed and most < 10 * allowed):
            bad.append(f"{what} are off by {whole:.1e}, {tensor} by {most:.1e}")
    s.row(name, f"{found[name]['gradients']['difference']:.1e}", "; ".join(told))
    if bad:
        raise Trouble("; ".join(bad))
