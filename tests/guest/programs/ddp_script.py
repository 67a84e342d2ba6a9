"""A PyTorch script as its users write one: a small vision transformer on random images, DDP over Gloo by torchrun.

    torchrun --nproc-per-node 2 ddp_script.py --batch 8 --amp bf16 --save out
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SIZE, PATCH, CHANNELS, WIDTH = 64, 8, 4, 96


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)
        self.place = nn.Parameter(torch.zeros((SIZE // PATCH) ** 2, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CHANNELS * PATCH * PATCH)

    def forward(self, image):
        return self.head(self.blocks(self.embed(image).flatten(2).transpose(1, 2) + self.place))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--amp", choices=["none", "bf16"], default="none")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = Vision()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    first = 0
    if args.resume:
        state = torch.load(args.resume)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    generator = torch.Generator().manual_seed(dist.get_rank())
    image = torch.randn(args.batch, CHANNELS, SIZE, SIZE, generator=generator)
    target = torch.randn(args.batch, (SIZE // PATCH) ** 2, CHANNELS * PATCH * PATCH, generator=generator)
    for step in range(first + 1, args.steps + 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.amp == "bf16"):
            loss = nn.functional.mse_loss(model(image).float(), target)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss = {loss.item():.6f}", flush=True)
            if args.save and step % 20 == 0:
                args.save.mkdir(parents=True, exist_ok=True)
                part = args.save / f"part-{os.getpid()}"
                torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
                part.rename(args.save / f"step-{step}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
