"""Isobar's `net.kind: unet` in PyTorch: a ViT of two resolutions with a skip connection, its reference in
tests. The parameter names are those of Isobar's checkpoints."""

import torch
from torch import nn

from vit import Block


def to_coarse(x, rows, cols):
    """[B, rows * cols, D] -> four neighbours side by side, in the order (row, column): [B, rows * cols / 4, 4 D]"""
    b, _, d = x.shape
    x = x.view(b, rows // 2, 2, cols // 2, 2, d).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(b, rows * cols // 4, 4 * d)


def to_fine(x, rows, cols):
    """The inverse: [B, rows * cols / 4, 4 D] -> [B, rows * cols, D]"""
    b, _, d = x.shape
    x = x.view(b, rows // 2, cols // 2, 2, 2, d // 4).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(b, rows * cols, d // 4)


class Merge(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)


class Split(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.norm = nn.LayerNorm(2 * dim, eps=eps)
        self.expansion = nn.Linear(2 * dim, 4 * dim, bias=False)


class UNet(nn.Module):
    """[B, C_in, H, W] -> [B, C_out, H, W]; a token is one patch of p x p points, in row-major order."""

    def __init__(self, embed_dim=96, encoder_depth=2, bottleneck_depth=6, decoder_depth=2, num_heads=4, patch_size=8,
                 mlp_ratio=4, img_height=360, img_width=720, in_channels=20, out_channels=20, norm_eps=1e-6):
        super().__init__()
        blocks = lambda depth, times: nn.ModuleList(
            Block(times * embed_dim, times * num_heads, mlp_ratio, norm_eps) for _ in range(depth))
        self.p, self.c_out = patch_size, out_channels
        self.rows, self.cols = img_height // patch_size, img_width // patch_size
        self.patch_embed = nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
        self.pos_embed = nn.Parameter(torch.zeros(self.rows * self.cols, embed_dim))
        self.encoder = blocks(encoder_depth, 1)
        self.merge = Merge(embed_dim, norm_eps)
        self.bottleneck = blocks(bottleneck_depth, 2)
        self.split = Split(embed_dim, norm_eps)
        self.decoder = blocks(decoder_depth, 1)
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.head = nn.Linear(embed_dim, patch_size * patch_size * out_channels, bias=False)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed  # [B, N, D]
        for block in self.encoder:
            x = block(x)
        skip = x
        x = self.merge.reduction(to_coarse(self.merge.norm(x), self.rows, self.cols))
        for block in self.bottleneck:
            x = block(x)
        x = skip + to_fine(self.split.expansion(self.split.norm(x)), self.rows, self.cols)
        for block in self.decoder:
            x = block(x)
        x = self.head(self.norm(x))  # [B, N, p*p*C_out], columns in the order (p_row, p_col, channel)
        x = x.view(-1, self.rows, self.cols, self.p, self.p, self.c_out).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, self.c_out, self.rows * self.p, self.cols * self.p)
