"""A training loop of microsoft-aurora as its documentation writes one: a small Aurora on random fields, DDP by torchrun.

    torchrun --nproc-per-node 2 aurora_script.py --batch 1 --save out
"""

import argparse
import os
import pathlib
from datetime import datetime, timedelta

import torch
import torch.distributed as dist
from aurora import Aurora, Batch, Metadata
from torch.nn.parallel import DistributedDataParallel

LEVELS, SURFACE, ATMOS, STATIC = (100, 250, 500, 850), ("2t", "10u", "10v", "msl"), ("z", "u", "v", "t", "q"), ("lsm", "z", "slt")
HEIGHT, WIDTH = 16, 32


def batch_of(n, generator):
    def fields(*shape):
        return torch.randn(*shape, generator=generator)

    return Batch(surf_vars={k: fields(n, 2, HEIGHT, WIDTH) for k in SURFACE},
                 static_vars={k: fields(HEIGHT, WIDTH) for k in STATIC},
                 atmos_vars={k: fields(n, 2, len(LEVELS), HEIGHT, WIDTH) for k in ATMOS},
                 metadata=Metadata(lat=torch.linspace(90, -90, HEIGHT), lon=torch.linspace(0, 360, WIDTH + 1)[:-1],
                                   time=tuple(datetime(2020, 6, 1, 12) + timedelta(hours=6 * i) for i in range(n)),
                                   atmos_levels=LEVELS))


def mae(prediction, target):
    surface = [(prediction.surf_vars[k] - target.surf_vars[k][:, -1:]).abs().mean() for k in SURFACE]
    atmosphere = [(prediction.atmos_vars[k] - target.atmos_vars[k][:, -1:]).abs().mean() for k in ATMOS]
    return torch.stack(surface + atmosphere).mean()


class Step(torch.nn.Module):
    """DDP takes and returns tensors: the loss is computed within."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch, target):
        return mae(self.model(batch), target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", 0))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    model = Aurora(encoder_depths=(1, 2), encoder_num_heads=(2, 4), decoder_depths=(2, 1), decoder_num_heads=(4, 2),
                   embed_dim=32, num_heads=4, use_lora=False, autocast=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    first = 0
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    step_of = Step(model)
    if dist.is_initialized():
        step_of = DistributedDataParallel(step_of, find_unused_parameters=True)
    generator = torch.Generator().manual_seed(rank)
    batch, target = batch_of(args.batch, generator), batch_of(args.batch, generator)
    for i in range(first, args.steps):
        optimizer.zero_grad()
        loss = step_of(batch, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank == 0:
            print(f"step {i}: loss = {loss.item():.4f}", flush=True)
            if args.save and i % 10 == 9:
                args.save.mkdir(exist_ok=True)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": i}, args.save / "new")
                os.rename(args.save / "new", args.save / f"step-{i}.pt")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
