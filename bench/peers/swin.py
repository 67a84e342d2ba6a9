"""Isobar's `net.kind: swin` in PyTorch: a 2-D Swin (Liu 2021) in the shape of a U-Net, its reference in tests. Windows
are made as Swin makes them: the grid is rolled and padded, and a mask keeps apart what does not belong together. The
parameter names are those of Isobar's checkpoints."""

import torch
from torch import nn

from vit import Mlp


class WindowAttention(nn.Module):
    """Attention of [B, rows, cols, D] inside windows of at most the grid."""

    def __init__(self, dim, heads, grid, window, shifted, periodic, bias):
        super().__init__()
        self.heads, self.grid, self.periodic = heads, grid, periodic
        self.window = [min(w, g) for w, g in zip(window, grid)]
        self.shift = [w // 2 if shifted and g > w else 0 for w, g in zip(window, grid)]
        self.q, self.k, self.v, self.proj = (nn.Linear(dim, dim) for _ in range(4))
        down, across = self.window
        if bias:
            self.relative_position_bias_table = nn.Parameter(torch.zeros(heads, (2 * down - 1) * (2 * across - 1)))
        rows, cols = torch.meshgrid(torch.arange(down), torch.arange(across), indexing="ij")
        rows, cols = rows.flatten(), cols.flatten()
        self.distance = ((rows[:, None] - rows[None]) + down - 1) * (2 * across - 1) + cols[:, None] - cols[None] + across - 1
        self.bias = bias
        self.mask = self.make_mask()

    def pads(self):
        """Before and after, of rows and of columns: half of the padding is on each side."""
        out = []
        for g, w in zip(self.grid, self.window):
            pad = -g % w
            out.append((pad // 2, pad - pad // 2))
        return out

    def windows(self, x):
        """[B, rows, cols, D], padded -> [B, windows, rows * cols of a window, D]"""
        b, rows, cols, d = x.shape
        down, across = self.window
        x = x.view(b, rows // down, down, cols // across, across, d).transpose(2, 3)
        return x.reshape(b, -1, down * across, d)

    def make_mask(self):
        """[windows, queries, keys]: True where a query may see a key."""
        region = torch.zeros(self.grid, dtype=torch.long)
        if self.shift[0]:
            region[self.grid[0] - self.shift[0]:] += 1
        if self.shift[1] and not self.periodic:
            region[:, self.grid[1] - self.shift[1]:] += 2
        (top, bottom), (left, right) = self.pads()
        region = nn.functional.pad(region, (left, right, top, bottom), value=-1)
        region = self.windows(region[None, :, :, None])[0, :, :, 0]
        return (region[:, :, None] == region[:, None]) & (region[:, None] >= 0)

    def forward(self, x):
        b, rows, cols, d = x.shape
        (top, bottom), (left, right) = self.pads()
        x = x.roll((-self.shift[0], -self.shift[1]), dims=(1, 2))
        x = nn.functional.pad(x, (0, 0, left, right, top, bottom))
        padded = x.shape[1:3]
        x = self.windows(x)
        heads = lambda y: y.unflatten(-1, (self.heads, d // self.heads)).transpose(2, 3)  # [B, windows, heads, L, d]
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        if self.bias:
            scores = scores + self.relative_position_bias_table[:, self.distance]
        scores = scores.masked_fill(~self.mask[:, None], -1e30)  # rows of padding alone see all alike
        x = self.proj((scores.softmax(-1) @ v).transpose(2, 3).flatten(-2))
        down, across = self.window
        x = x.view(b, padded[0] // down, padded[1] // across, down, across, d).transpose(2, 3).reshape(b, *padded, d)
        x = x[:, top:top + rows, left:left + cols]
        return x.roll(self.shift, dims=(1, 2))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio, eps, *windows):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=eps)
        self.attn = WindowAttention(dim, heads, *windows)
        self.norm2 = nn.LayerNorm(dim, eps=eps)
        self.mlp = Mlp(dim, mlp_ratio)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Merge(nn.Module):
    """Four neighbours side by side in the order (row, column), zeros beyond an odd size"""

    def __init__(self, dim, eps):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim, eps=eps)
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        b, rows, cols, d = x.shape
        x = nn.functional.pad(x, (0, 0, 0, cols % 2, 0, rows % 2))
        x = x.view(b, x.shape[1] // 2, 2, x.shape[2] // 2, 2, d).transpose(2, 3).flatten(-3)
        return self.reduction(self.norm(x))


class Split(nn.Module):
    """The inverse, cropped to the finer grid"""

    def __init__(self, dim, eps):
        super().__init__()
        self.lin1 = nn.Linear(dim, 2 * dim, bias=False)
        self.norm = nn.LayerNorm(dim // 2, eps=eps)
        self.lin2 = nn.Linear(dim // 2, dim // 2, bias=False)

    def forward(self, x, rows, cols):
        b, coarse_rows, coarse_cols, d = x.shape
        x = self.lin1(x).view(b, coarse_rows, coarse_cols, 2, 2, d // 2).transpose(2, 3)
        x = x.reshape(b, 2 * coarse_rows, 2 * coarse_cols, d // 2)[:, :rows, :cols]
        return self.lin2(self.norm(x))


class Stage(nn.Module):
    pass


class Swin(nn.Module):
    """[B, C_in, H, W] -> [B, C_out, H, W]"""

    def __init__(self, patch_size=4, embed_dim=96, encoder_depths=(2, 2, 6), encoder_num_heads=(3, 6, 12),
                 decoder_depths=(2, 2, 2), window=(6, 12), periodic=True, relative_position_bias=True, mlp_ratio=4,
                 img_height=360, img_width=720, in_channels=20, out_channels=20, norm_eps=1e-5):
        super().__init__()
        self.p, self.c_out = patch_size, out_channels
        self.grids = [(img_height // patch_size, img_width // patch_size)]
        for _ in encoder_depths[1:]:
            self.grids.append(tuple((n + 1) // 2 for n in self.grids[-1]))
        blocks = lambda r, depth: nn.ModuleList(
            Block(embed_dim << r, encoder_num_heads[r], mlp_ratio, norm_eps, self.grids[r], window, i % 2 == 1, periodic,
                  relative_position_bias) for i in range(depth))
        self.patch_embed = nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
        self.pos_embed = nn.Parameter(torch.zeros(self.grids[0][0] * self.grids[0][1], embed_dim))
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        coarsest = len(encoder_depths) - 1
        for r, depth in enumerate(encoder_depths):
            stage = Stage()
            stage.blocks = blocks(r, depth)
            if r < coarsest:
                stage.downsample = Merge(embed_dim << r, norm_eps)
            self.encoder.append(stage)
        for i, depth in enumerate(decoder_depths):
            stage = Stage()
            stage.blocks = blocks(coarsest - i, depth)
            if i < coarsest:
                stage.upsample = Split(embed_dim << (coarsest - i), norm_eps)
            self.decoder.append(stage)
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.head = nn.Linear(embed_dim, patch_size * patch_size * out_channels, bias=False)

    def forward(self, x):
        rows, cols = self.grids[0]
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        x = x.unflatten(1, (rows, cols))
        skips = []
        for stage in self.encoder:
            for block in stage.blocks:
                x = block(x)
            if hasattr(stage, "downsample"):
                skips.append(x)
                x = stage.downsample(x)
        for stage in self.decoder:
            for block in stage.blocks:
                x = block(x)
            if hasattr(stage, "upsample"):
                skip = skips.pop()
                x = skip + stage.upsample(x, *skip.shape[1:3])
        x = self.head(self.norm(x))  # [B, rows, cols, p*p*C_out], columns in the order (p_row, p_col, channel)
        x = x.view(-1, rows, cols, self.p, self.p, self.c_out).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, self.c_out, rows * self.p, cols * self.p)
