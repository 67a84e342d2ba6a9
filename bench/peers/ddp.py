"""A training as PyTorch's users write it: a small transformer under DistributedDataParallel, over Gloo on CPUs or NCCL on
GPUs. configs/sweeps/command.yaml sweeps it by run.command.

    torchrun --standalone --nproc-per-node 2 bench/peers/ddp.py --global-batch 16 --micro-batch 4 --amp bf16 --steps 25
"""

import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TOKENS, WIDTH = 128, 64


def net():
    block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(block, 4, enable_nested_tensor=False)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), blocks, nn.Linear(WIDTH, WIDTH))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--global-batch", type=int, required=True)
    ap.add_argument("--micro-batch", type=int, required=True)
    ap.add_argument("--amp", choices=["none", "bf16"], default="none")
    ap.add_argument("--steps", type=int, required=True)
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
    torch.manual_seed(0)
    model = DistributedDataParallel(net().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(1, a.steps + 1):
        begun = time.perf_counter()
        optimizer.zero_grad()
        total = 0.0
        for micro in range(micro_batches):
            x = torch.randn(a.micro_batch, TOKENS, WIDTH, device=device)
            last = micro + 1 == micro_batches
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast(device, torch.bfloat16, enabled=a.amp == "bf16"):
                    y = model(x)
                loss = (y.float() - x).pow(2).mean() / micro_batches
                loss.backward()
            total += loss.item()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {total:.5f} took {1e3 * (time.perf_counter() - begun):.2f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
