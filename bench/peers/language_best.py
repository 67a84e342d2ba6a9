"""The fastest steps that PyTorch makes of Isobar's Llama in bf16, without rotary scaling: one JSON line a case.

    python language_best.py --embed-dim 2048 --depth 16 --heads 32 --kv-heads 8 --ffn 8192 --words 128256 --tokens 4096 --batch 2

The cases are those of best.py; the loss is the mean cross-entropy of the next tokens, from logits in fp32.
"""

import argparse

import best
import torch
import torch.nn.functional as F
from language import Llama


def build(args):
    net = Llama(args.embed_dim, args.depth, args.heads, args.kv_heads, args.ffn, args.tokens, args.words, 1e-5, 500000.0, args.tied)
    for p in net.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02)
    net = net.to(args.device)
    tokens = torch.randint(args.words, (args.batch, args.tokens + 1), device=args.device)
    return net, lambda forward: F.cross_entropy(forward(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("embed-dim", 64), ("depth", 2), ("heads", 4), ("kv-heads", 2), ("ffn", 176), ("words", 256), ("tokens", 64),
                        ("batch", 2), ("steps", 30)):
        ap.add_argument(f"--{name}", type=int, default=value)
    ap.add_argument("--tied", action="store_true", help="the head is the embedding's table")
    ap.add_argument("--cases", default="compile,eager")
    ap.add_argument("--device", default="cuda")
    args = ap.parse_args()
    best.measure(args, lambda: build(args), best.Heads(args.heads, args.kv_heads, args.embed_dim // args.heads, args.tokens, True))


main()
