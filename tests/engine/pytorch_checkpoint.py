"""PyTorch loads what Isobar wrote: checkpoints of several layouts, under plain parameter names, give the validation
loss and the RMSE of every channel that the run itself wrote down.

    python3 tests/engine/pytorch_checkpoint.py --isobar build/isobar

Isobar trains on a small synthetic atmosphere; what stands against it is foreign throughout: safetensors' own reader,
h5py, and the ViT of bench/peers/vit.py, in float64 and in float32. Needs torch, numpy, h5py and safetensors, which
`bench/peers/run.sh --setup-only` installs into .venv-peers; without them the test says so and is skipped.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = pathlib.Path(os.environ.get("ISOBAR_PEER_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
try:
    import h5py
    import numpy as np
    import torch
    from safetensors.torch import load_file
except ImportError as missing:
    if PEER.exists() and pathlib.Path(sys.executable).absolute() != PEER.absolute():
        os.execv(PEER, [str(PEER), *sys.argv])
    print(f"SKIPPED: {missing}; bench/peers/run.sh --setup-only installs it into .venv-peers")
    sys.exit(0)

sys.path.insert(0, str(ROOT / "bench" / "peers"))
from vit import ViT, latitude_rmse, relative_l2  # noqa: E402

# layout and policy, and how far loss and RMSE may lie from PyTorch's, relative
CASES = [
    ([], 1e-6),
    (["layout.tp=2", "layout.pp=2", "policy.micro_batch=2"], 1e-6),
    (["layout.dp=2", "layout.tp=2", "policy.sequence_parallel=true"], 1e-6),
    (["layout.cp=3", "policy.cp_kind=ring"], 1e-6),
    (["layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved", "policy.micro_batch=1"], 1e-6),
    (["layout.tp=2", "policy.amp=bf16"], 3e-4),  # evaluated in bf16 there, not here
]
# An odd number of blocks, and tokens (35) that do not divide by 2 or 3
NET = ["net.depth=5", "net.img_height=40", "net.img_width=56", "train.global_batch=4", "train.steps=8", "train.lr=2e-3",
       "train.checkpoint_every=8", "run.threads=1"]


def call(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")


def read_pairs(data):
    """Normalised inputs and targets of the validation set as the NERSC loader picks them: two arrays [N, C, H, W].

    A year has as many samples as steps. Its last step is no input (it wraps to the start) and neither is its first, so
    the second step's pair comes up three times.
    """
    mean, std = (np.load(data / "stats" / f"global_{what}.npy").reshape(1, -1, 1, 1) for what in ("means", "stds"))
    (path,) = (data / "valid").glob("*.h5")
    with h5py.File(path) as f:
        fields = torch.from_numpy(((f["fields"][:] - mean) / std).astype(np.float32))
    inputs = torch.tensor([max(1, i % (len(fields) - 1)) for i in range(len(fields))])
    return fields[inputs], fields[inputs + 1]


def train(isobar, data, out, layout):
    """Trains and returns (the net, the last validation event, the checkpoint's tensors)."""
    sets = NET + layout + [f"run.out={out}", f"data.train={data}/train", f"data.valid={data}/valid",
                           f"data.means={data}/stats/global_means.npy", f"data.stds={data}/stats/global_stds.npy"]
    command = [isobar, "train", str(ROOT / "configs/models/vit-tiny.yaml")]
    for item in sets:
        command += ["--set", item]
    call(command)
    events = [json.loads(line) for line in (out / "result.jsonl").read_text().splitlines()]
    valid = [e for e in events if e["event"] == "valid"][-1]
    net = next(e for e in events if e["event"] == "run_start")["spec"]["net"]
    return net, valid, load_file(out / "checkpoints" / "step-00000008" / "model.safetensors")


@torch.no_grad()
def evaluate(net, weights, x, y, dtype):
    """Loss and RMSE by channel; load_state_dict wants every name and shape to be its own."""
    model = ViT(net["embed_dim"], net["depth"], net["num_heads"], net["patch_size"], net["mlp_ratio"], net["img_height"],
                net["img_width"], net["in_channels"], net["out_channels"], net["norm_eps"]).to(dtype)
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in weights.items()}, strict=True)
    prediction, target = model(x.to(dtype)), y.to(dtype)
    return relative_l2(prediction, target).item(), latitude_rmse(prediction, target)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--isobar", default=str(ROOT / "build" / "isobar"))
    args = ap.parse_args()
    torch.set_num_threads(1)
    failed = []
    with tempfile.TemporaryDirectory(prefix="isobar-pytorch-") as folder:
        data = pathlib.Path(folder) / "data"
        call([args.isobar, "data", "make", str(data), "--samples-per-year", "12", "--channels", "4", "--height", "40",
              "--width", "56"])
        x, y = read_pairs(data)
        assert len(x) == 12  # a multiple of every batch here, so that Isobar leaves none out
        print(f"{'layout':<72}{'isobar':>12}{'float64':>12}{'off by':>9}{'float32':>12}{'off by':>9}{'rmse off by':>13}")
        for i, (layout, limit) in enumerate(CASES):
            net, valid, weights = train(args.isobar, data, pathlib.Path(folder) / str(i), layout)
            double, rmse = evaluate(net, weights, x, y, torch.float64)
            single, _ = evaluate(net, weights, x, y, torch.float32)
            off = [abs(valid["loss"] / loss - 1) for loss in (double, single)]
            rmse_off = (torch.tensor(valid["rmse"], dtype=torch.float64) / rmse - 1).abs().max().item()
            name = " ".join(item.split(".", 1)[1] for item in layout) or "one rank"
            print(f"{name:<72}{valid['loss']:>12.8f}{double:>12.8f}{off[0]:>9.1e}{single:>12.8f}{off[1]:>9.1e}{rmse_off:>13.1e}")
            if not max(*off, rmse_off) <= limit:  # NaN fails, too
                failed.append(f"{name}: {max(*off, rmse_off):.1e} off, {limit} allowed")
            untrained = relative_l2(torch.zeros_like(y), y).item()
            if not valid["loss"] < 0.95 * untrained:
                failed.append(f"{name}: a loss of {valid['loss']} is that of a net that knows nothing")
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
