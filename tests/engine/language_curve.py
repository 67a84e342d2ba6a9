"""GPT and Llama learn text as PyTorch does: the same weights at the start, the same samples in the same order, and the
same losses in every step.

    python3 tests/engine/language_curve.py --isobar build/isobar [--steps 200] [--curves curves.csv]

The text is this repository's headers, byte by byte. What stands against Isobar is bench/peers/language.py with
torch.optim.AdamW and clip_grad_norm_, in float32; float64 says how far rounding alone drives such a training apart. Needs
torch and safetensors, which `bench/peers/run.sh --setup-only` installs into .venv-peers; without them the test says so and
is skipped.
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
    import torch
    from safetensors.torch import save_file
except ImportError as missing:
    if PEER.exists() and pathlib.Path(sys.executable).absolute() != PEER.absolute():
        os.execv(PEER, [str(PEER), *sys.argv])
    print(f"SKIPPED: {missing}; bench/peers/run.sh --setup-only installs it into .venv-peers")
    sys.exit(0)

sys.path.insert(0, str(ROOT / "bench" / "peers"))
from language import net_of  # noqa: E402

CLOSE = 1e-4  # largest difference of a step's losses
RATE = 1e-3  # at three times this the training of gpt-tiny is chaotic: PyTorch's float32 is 0.02 from its float64
LEARNT = 0.75  # the last losses, of the first


def call(command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")


def first_weights(model):
    """As transformers draws them; norms are ones, biases zeros."""
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02)
        elif p.unique().numel() > 1:  # biases of linears are drawn there
            torch.nn.init.zeros_(p)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def spec_of(isobar, config, out):
    """All keys of a run, as one of a single step writes them down."""
    call([isobar, "train", config, "--set", "train.steps=1", "--set", "run.threads=1", "--set", f"run.out={out}"])
    return json.loads((out / "result.jsonl").read_text().splitlines()[0])["spec"]


def isobar_losses(isobar, config, text, weights, steps, out):
    call([isobar, "train", config, "--set", f"data.train={text}", "--set", "data.shuffle=false", "--set", f"train.steps={steps}",
          "--set", f"train.init_from={weights}", "--set", "run.threads=1", "--set", f"run.out={out}", "--set", "policy.amp=none", "--set",
          f"train.lr={RATE}"])
    events = [json.loads(line) for line in (out / "result.jsonl").read_text().splitlines()]
    seen = [e for e in events if e["event"] == "step"]
    assert len(seen) == steps, len(seen)
    return [e["loss"] for e in seen], [e["lr"] for e in seen], events[0]["spec"]


def torch_losses(spec, weights, tokens, rates, dtype):
    model = net_of(spec["net"]).to(dtype)
    model.load_state_dict({k: v.to(dtype) for k, v in weights.items()})
    train, batch, length = spec["train"], spec["train"]["global_batch"], spec["net"]["seq_length"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1, betas=(train["beta1"], train["beta2"]), eps=train["adam_eps"],
                                  weight_decay=train["weight_decay"])
    out = []
    for step, lr in enumerate(rates):
        first = torch.arange(step * batch, (step + 1) * batch)[:, None] * length + torch.arange(length)
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens[first])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[first + 1].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train["grad_clip"])
        optimizer.step()
        out.append(loss.item())
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--isobar", required=True, type=pathlib.Path)
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--curves", type=pathlib.Path, help="writes the losses of each step")
    args = ap.parse_args()
    torch.set_num_threads(1)
    failed, curves = False, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = b"".join(p.read_bytes() for p in sorted((ROOT / "model").rglob("*.h")))
        (folder / "text.txt").write_bytes(text)
        call([args.isobar, "data", "tokens", folder / "text.txt", "-o", folder / "text.bin"])
        tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        for config in ("gpt-tiny", "llama-tiny"):
            torch.manual_seed(41)
            path = ROOT / "configs" / "models" / f"{config}.yaml"
            weights = first_weights(net_of(spec_of(args.isobar, path, folder / f"{config}-begun")["net"]))
            save_file(weights, folder / f"{config}.safetensors")
            ours, rates, spec = isobar_losses(args.isobar, path, folder / "text.bin", folder / f"{config}.safetensors", args.steps,
                                              folder / config)
            needed = args.steps * spec["train"]["global_batch"] * spec["net"]["seq_length"]
            assert needed < len(tokens), f"{needed} tokens are read, and the text has {len(tokens)}"
            theirs, exact = (torch_losses(spec, weights, tokens, rates, t) for t in (torch.float32, torch.float64))
            apart = max(abs(a - b) for a, b in zip(ours, theirs))
            rounding = max(abs(a - b) for a, b in zip(theirs, exact))
            own = max(abs(a - b) for a, b in zip(ours, exact))
            mean = lambda losses: sum(losses[-10:]) / 10
            print(f"{config}: {args.steps} steps, loss {ours[0]:.4f} -> {mean(ours):.4f} (PyTorch {mean(theirs):.4f}); largest "
                  f"difference {apart:.1e}, from float64 {own:.1e} (PyTorch's float32 {rounding:.1e})")
            curves += [f"{config},{i + 1},{a},{b},{c}" for i, (a, b, c) in enumerate(zip(ours, theirs, exact))]
            if not apart < CLOSE or not mean(ours) < LEARNT * ours[0]:
                failed = True
                print(f"FAILED: {config}")
    if args.curves:
        args.curves.write_text("\n".join(["net,step,isobar,torch_f32,torch_f64", *curves]) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
