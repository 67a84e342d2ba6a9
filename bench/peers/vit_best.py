"""The fastest steps that PyTorch makes of Isobar's ViT in bf16: one JSON line a case, the most telling first.

    python vit_best.py --embed-dim 1536 --batch 4
    python vit_best.py --embed-dim 384 --batch 16 --cases compile --steps 50

All cases: fp32 weights, autocast to bf16, fused Adam, q k v in one product, patches by a product, cuDNN's attention, and
one batch that stays on the device. `compile` is the whole net by torch.compile, `eager` runs op by op. vit.py is the net
as it was published. A case that fails says so in its line, and the next one runs.
"""

import argparse

import best
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads, ratio):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, ratio * dim), nn.Linear(ratio * dim, dim)

    def forward(self, x):  # [B, N, D]
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    """[B, C, H, W] -> [B, C, H, W]"""

    def __init__(self, dim, depth, heads, patch, ratio, height, width, channels):
        super().__init__()
        self.p, self.c, self.rows, self.cols = patch, channels, height // patch, width // patch
        self.embed = nn.Linear(channels * patch * patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(self.rows * self.cols, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, ratio) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, patch * patch * channels, bias=False)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, x):
        b, p = x.shape[0], self.p
        x = x.view(b, self.c, self.rows, p, self.cols, p).permute(0, 2, 4, 1, 3, 5).reshape(b, self.rows * self.cols, -1)
        x = self.embed(x) + self.pos
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x)).view(b, self.rows, self.cols, p, p, self.c).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(b, self.c, self.rows * p, self.cols * p)


def relative_l2(pred, y):
    difference = torch.linalg.vector_norm((pred.float() - y).flatten(1), dim=1)
    return (difference / torch.linalg.vector_norm(y.flatten(1), dim=1)).mean()


def build(args):
    """The net, and a function from a compiled or eager net to the loss of the one batch"""
    net = ViT(args.embed_dim, args.depth, args.heads, args.patch, args.mlp_ratio, *args.img, args.channels[0]).to(args.device)
    x, y = (torch.randn(args.batch, args.channels[0], *args.img, device=args.device) for _ in range(2))
    return net, lambda forward: relative_l2(forward(x), y)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--embed-dim", type=int, default=384)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--heads", type=int, default=8)
    ap.add_argument("--patch", type=int, default=8)
    ap.add_argument("--mlp-ratio", type=int, default=4)
    ap.add_argument("--img", type=int, nargs=2, default=[360, 720])
    ap.add_argument("--channels", type=int, nargs="+", default=[20], help="in and out: the same")
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--cases", default="compile,eager")
    ap.add_argument("--device", default="cuda")
    args = ap.parse_args()
    best.measure(args, lambda: build(args), best.Heads(args.heads, args.heads, args.embed_dim // args.heads, 4050, False))


main()
