"""A training as PyTorch's users write it: a small transformer under DistributedDataParallel or FSDP, over Gloo on CPUs or
NCCL on GPUs. configs/sweeps/command.yaml sweeps it by run.command.

    torchrun --standalone --nproc-per-node 2 bench/peers/ddp.py --global-batch 16 --micro-batch 4 --amp bf16 --steps 25
    torchrun --standalone --nproc-per-node 2 bench/peers/ddp.py --model gpt --fsdp --global-batch 8 --micro-batch 2 --steps 25
"""

import argparse
import contextlib
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TOKENS, WIDTH, WORDS = 128, 64, 512


def blocks():
    block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(block, 4, enable_nested_tensor=False)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.norm, self.head = blocks(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(TOKENS), persistent=False)

    def forward(self, words):
        x = self.words(words) + self.places.weight
        return self.head(self.norm(self.blocks(x, mask=self.mask, is_causal=True)))


class Fields:
    """Fields that are to be predicted as they are."""

    @staticmethod
    def net():
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), blocks(), nn.Linear(WIDTH, WIDTH))

    @staticmethod
    def batch(samples, device):
        return torch.randn(samples, TOKENS, WIDTH, device=device)

    @staticmethod
    def loss(y, x):
        return (y.float() - x).pow(2).mean()


class Words:
    """The next of random words."""

    net = Gpt

    @staticmethod
    def batch(samples, device):
        return torch.randint(WORDS, (samples, TOKENS), device=device)

    @staticmethod
    def loss(y, x):
        return nn.functional.cross_entropy(y[:, :-1].float().flatten(0, 1), x[:, 1:].flatten())


def sharded(model):
    from torch.distributed.fsdp import fully_shard

    for block in [m for m in model.modules() if isinstance(m, nn.TransformerEncoderLayer)]:
        fully_shard(block)
    return fully_shard(model)


def gathered(model, last, fsdp):
    """Gradients are reduced after the last micro-batch only."""
    if not fsdp:
        return contextlib.nullcontext() if last else model.no_sync()
    model.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--global-batch", type=int, required=True)
    ap.add_argument("--micro-batch", type=int, required=True)
    ap.add_argument("--amp", choices=["none", "bf16"], default="none")
    ap.add_argument("--steps", type=int, required=True)
    ap.add_argument("--model", choices=["vit", "gpt"], default="vit")
    ap.add_argument("--fsdp", action="store_true", help="shard parameters, gradients and moments")
    ap.add_argument("--save", type=pathlib.Path, help="folder of checkpoints, one every 10 steps")
    ap.add_argument("--resume", type=pathlib.Path, help="go on from this checkpoint")
    a = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    else:
        torch.set_num_threads(1)
    micro_batches, rest = divmod(a.global_batch, world * a.micro_batch)
    if rest:
        ap.error(f"argument --global-batch: {a.global_batch} is no multiple of {world} ranks * {a.micro_batch}")
    if a.fsdp and (a.save or a.resume):
        ap.error("argument --save: is of DistributedDataParallel")
    torch.manual_seed(0)
    kind = {"vit": Fields, "gpt": Words}[a.model]
    net = kind.net().to(device)
    begin = 0
    if a.resume:
        saved = torch.load(a.resume, map_location=device)
        net.load_state_dict(saved["net"])
        begin = saved["step"]
    model = sharded(net) if a.fsdp else DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    if a.resume:
        optimizer.load_state_dict(saved["optimizer"])
    for step in range(begin + 1, a.steps + 1):
        begun = time.perf_counter()
        optimizer.zero_grad()
        total = 0.0
        for micro in range(micro_batches):
            x = kind.batch(a.micro_batch, device)
            with gathered(model, micro + 1 == micro_batches, a.fsdp):
                with torch.autocast(device, torch.bfloat16, enabled=a.amp == "bf16"):
                    y = model(x)
                loss = kind.loss(y, x) / micro_batches
                loss.backward()
            total += loss.item()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {total:.5f} took {1e3 * (time.perf_counter() - begun):.2f} ms", flush=True)
            if a.save and step % 10 == 0:
                a.save.mkdir(parents=True, exist_ok=True)
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, a.save / "new")
                os.replace(a.save / "new", a.save / f"step-{step:06}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
