"""A PyTorch script as its users write one: a small GPT on random tokens, FSDP over Gloo by torchrun.

    torchrun --nproc-per-node 2 fsdp_script.py --batch 4 --reshard 3 --save out
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

VOCABULARY, LENGTH, WIDTH, DEPTH = 512, 128, 128, 4
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
                                    for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        n = tokens.shape[1] - 1
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        x = self.embed(tokens[:, :-1]) + self.place(torch.arange(n))
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--reshard", type=int, default=3, help="ZeRO stage: 3 gathers weights once more backward")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = Language()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=args.reshard == 3)
    fully_shard(model, reshard_after_forward=args.reshard == 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    first = 0
    if args.resume:
        state = torch.load(args.resume)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=WHOLE)
        first = state["step"]
    tokens = torch.randint(VOCABULARY, (args.batch, LENGTH + 1), generator=torch.Generator().manual_seed(dist.get_rank()))
    for step in range(first + 1, args.steps + 1):
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss = {loss.item():.6f}", flush=True)
        if args.save and step % 20 == 0:
            weights, moments = get_state_dict(model, optimizer, options=WHOLE)
            if dist.get_rank() == 0:
                args.save.mkdir(parents=True, exist_ok=True)
                part = args.save / f"part-{os.getpid()}"
                torch.save({"model": weights, "optimizer": moments, "step": step}, part)
                part.rename(args.save / f"step-{step}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
