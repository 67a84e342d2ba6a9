"""The ViT of the NERSC tutorial in current PyTorch: the peer for Isobar's timings and tests.

Written as a PyTorch user would write it today: F.scaled_dot_product_attention, exact GELU, fused Adam, autocast for
bf16, torch.compile on request. The parameter names are those of Isobar's checkpoints.

    python vit.py --embed-dim 384 --amp bf16 --threads 2 --steps 10       # prints one JSON line with the step times
    python vit.py --embed-dim 192 --depth 4 --img 120 240 --profile       # and where the time goes
    python vit.py --device cuda --amp bf16 --compile --steps 50           # on a GPU, by its own clock
"""

import argparse
import json
import math
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):  # [B, N, D]
        b, n, d = x.shape
        split = lambda t: t.view(b, n, self.heads, d // self.heads).transpose(1, 2)  # [B, heads, N, head_dim]
        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)))
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, ratio):
        super().__init__()
        self.fc1 = nn.Linear(dim, ratio * dim)
        self.fc2 = nn.Linear(ratio * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))  # exact (erf) GELU


class Block(nn.Module):
    def __init__(self, dim, heads, ratio, eps):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=eps)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=eps)
        self.mlp = Mlp(dim, ratio)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """[B, C_in, H, W] -> [B, C_out, H, W]; a token is one patch of p x p points, in row-major order."""

    def __init__(self, embed_dim=384, depth=12, num_heads=8, patch_size=8, mlp_ratio=4, img_height=360,
                 img_width=720, in_channels=20, out_channels=20, norm_eps=1e-6):
        super().__init__()
        self.p, self.c_out = patch_size, out_channels
        self.rows, self.cols = img_height // patch_size, img_width // patch_size
        self.patch_embed = nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
        self.pos_embed = nn.Parameter(torch.zeros(self.rows * self.cols, embed_dim))
        self.blocks = nn.ModuleList(Block(embed_dim, num_heads, mlp_ratio, norm_eps) for _ in range(depth))
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.head = nn.Linear(embed_dim, patch_size * patch_size * out_channels, bias=False)
        nn.init.normal_(self.pos_embed, std=0.02)
        for module in self.modules():  # the patch convolution keeps the framework's default
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed  # [B, N, D]
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x))  # [B, N, p*p*C_out], columns in the order (p_row, p_col, channel)
        x = x.view(-1, self.rows, self.cols, self.p, self.p, self.c_out).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, self.c_out, self.rows * self.p, self.cols * self.p)


def relative_l2(pred, target):
    """Mean over the batch of |pred - target| / |target|, each norm over all channels and points."""
    diff = torch.linalg.vector_norm((pred - target).flatten(1), dim=1)
    return (diff / torch.linalg.vector_norm(target.flatten(1), dim=1)).mean()


def latitude_rmse(pred, target):
    """RMSE per channel [C] with latitude weights (rows from 90 to -90 degrees), mean over the batch."""
    rows = pred.shape[2]
    lat = 90.0 - 180.0 * torch.arange(rows, dtype=pred.dtype) / (rows - 1)
    cos = torch.cos(3.1416 / 180.0 * lat)
    weight = rows * cos / cos.sum()
    return torch.sqrt((weight[:, None] * (pred - target) ** 2).mean(dim=(2, 3))).mean(dim=0)


def make_optimizer(model, kind="adam", lr=5e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, fused=True):
    cls = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return cls(model.parameters(), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)


def cosine_lr(lr, step, steps, warmup=0):
    """Learning rate of the 0-based step."""
    factor = 0.5 * (1.0 + math.cos(math.pi * step / steps))
    if warmup > 0:
        factor = min((step + 1) / warmup, factor)
    return lr * factor


def train_step(model, optimizer, x, y, amp):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=amp == "bf16"):
        pred = model(x)
    loss = relative_l2(pred.float(), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def time_steps(step, count, device):
    """Seconds of each of `count` steps, and the last one's loss. On a GPU steps are queued without waiting, and device
    events time them."""
    if device == "cpu":
        seconds = []
        for _ in range(count):
            t = time.perf_counter()
            loss = step().item()
            seconds.append(time.perf_counter() - t)
        return seconds, loss
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        loss = step()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:])], loss.item()


def matmul_rate(n=8192, count=20):
    """FLOP/s of a large bf16 product of random matrices on the GPU: median of `count` after a warm-up."""
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    seconds, _ = time_steps(lambda: (a @ b)[0, 0], count, "cuda")
    return 2 * n**3 / statistics.median(seconds)


def attention_kernels(step):
    """Attention kernels of one step, found by name, the longest first. PyTorch chooses among
    cuDNN's, FlashAttention, a memory-efficient one and plain products, by shape, type and version."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        step()
        torch.cuda.synchronize()
    words = ("flash", "fmha", "cudnn", "sdpa", "attention", "efficient")
    seen = [e for e in prof.key_averages() if any(w in e.key.lower() for w in words)]
    seen.sort(key=lambda e: -getattr(e, "self_device_time_total", getattr(e, "self_cuda_time_total", 0)))
    return "; ".join(e.key[:70] for e in seen[:3]) or "no fused kernel: plain products"


KINDS = (  # how the profile sums operator names; the first that matches
    ("attention", ("flash_attention", "scaled_dot_product", "bmm")),
    ("matmul", ("mkldnn_linear", "addmm", "aten::mm", "aten::matmul", "mkldnn_convolution", "convolution")),
    ("optimizer", ("_fused_adam",)),
    ("norm", ("layer_norm",)),
    ("gelu", ("gelu",)),
    ("cast and copy", ("aten::copy_", "aten::_to_copy")),
    ("compiled pointwise", ("cpp_fused", "graph_")),
)


def profile_steps(step, count):
    """Self CPU seconds per step by kind of operator."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        for _ in range(count):
            step()
    kinds = {}
    for event in prof.key_averages():
        kind = next((k for k, names in KINDS if any(n in event.key for n in names)), "rest")
        kinds[kind] = kinds.get(kind, 0.0) + event.self_cpu_time_total / 1e6 / count
    return dict(sorted(kinds.items(), key=lambda kv: -kv[1])), prof


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--embed-dim", type=int, default=384)
    ap.add_argument("--depth", type=int, default=12)
    ap.add_argument("--heads", type=int, default=8)
    ap.add_argument("--patch", type=int, default=8)
    ap.add_argument("--mlp-ratio", type=int, default=4)
    ap.add_argument("--img", type=int, nargs=2, default=(360, 720), metavar=("H", "W"))
    ap.add_argument("--channels", type=int, nargs=2, default=(20, 20), metavar=("IN", "OUT"))
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--optimizer", choices=("adam", "adamw"), default="adam")
    ap.add_argument("--amp", choices=("none", "bf16"), default="none")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--steps", type=int, default=10, help="timed steps, after --warmup")
    ap.add_argument("--warmup", type=int, default=2)
    ap.add_argument("--compile", action="store_true", help="torch.compile the model")
    ap.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    ap.add_argument("--profile", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    h, w = args.img
    model = ViT(args.embed_dim, args.depth, args.heads, args.patch, args.mlp_ratio, h, w, *args.channels).to(args.device)
    optimizer = make_optimizer(model, args.optimizer)
    run = torch.compile(model) if args.compile else model
    x = torch.randn(args.batch, args.channels[0], h, w, device=args.device)
    y = torch.randn(args.batch, args.channels[1], h, w, device=args.device)
    step = lambda: train_step(run, optimizer, x, y, args.amp)

    started = time.perf_counter()
    for _ in range(args.warmup):
        step().item()
    warmup_s = time.perf_counter() - started
    seconds, loss = time_steps(step, args.steps, args.device)
    result = {"torch": torch.__version__, "threads": args.threads, "amp": args.amp, "compile": args.compile,
              "parameters": sum(p.numel() for p in model.parameters()), "warmup_s": round(warmup_s, 3),
              "loss": loss, "seconds": [round(s, 6) for s in seconds],
              "cpu_capability": torch.backends.cpu.get_cpu_capability(), "pid": os.getpid()}
    if args.device == "cuda":
        result |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                   "peak_bytes": torch.cuda.max_memory_allocated(), "matmul_flops_per_s": matmul_rate(), "attention": attention_kernels(step)}
    if args.profile:
        kinds, prof = profile_steps(step, max(1, min(3, args.steps)))
        result["profile"] = {k: round(v, 5) for k, v in kinds.items()}
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=18, max_name_column_width=60))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
