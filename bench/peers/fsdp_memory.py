#!/usr/bin/env python3
"""Peak memory of PyTorch's FSDP2 on one rank by PyTorch's own tracker: the reference for Isobar's memory model of
torchtitan and FSDP (tests/golden/fsdp_memory.csv, tests/perfmodel/fsdp_memory_test.cpp).

    fsdp_memory.py                              # the whole table, to standard output: ten seconds a row
    fsdp_memory.py --only llama-1b --limit 4    # some of it
    fsdp_memory.py --check tests/golden/fsdp_memory.csv --limit 6   # recomputes rows; exit code 1 if one changed
    fsdp_memory.py --gloo                       # two real processes beside the fake world of two

No GPU or memory is needed: tensors are FakeTensors (on "cpu", as their backward passes require, with the operations of
a GPU), ranks a fake process group (as in torchtitan's scripts/estimate), memory is counted by FSDPMemTracker, and the
allocator is simulated (cuda_allocator.py).
The net is Llama 3 in torchtitan's shape: per-block fully_shard, bf16 parameters, reduction in fp32, fused AdamW over
fp32 shards, cross-entropy of logits in fp32. Three steps run: optimizer states are created in the first, and the allocator reaches a steady state.
"""
import argparse
import csv
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_allocator import Allocator  # noqa: E402

aten = torch.ops.aten
# hidden, heads, key-value heads, feed-forward, words, layers
NETS = {
    "llama-debug": (256, 8, 4, 768, 2048, 4),
    "llama-1b": (2048, 32, 8, 8192, 128256, 16),
    "llama-8b": (4096, 32, 8, 14336, 128256, 32),
    "llama-70b": (8192, 64, 8, 28672, 128256, 80),
}


def rotate(x, turns):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


def repeated(x, n):
    b, t, h, d = x.shape
    return x if n == 1 else x[:, :, :, None, :].expand(b, t, h, n, d).reshape(b, t, h * n, d)


def attend(q, k, v):
    if active_fake_mode():
        return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]
    return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[0]


class Tracker(FSDPMemTracker):
    """Every storage while it lives, by what operations return. Two departures: DTensor finds shapes out by fake operations
    on whole tensors, which among fake tensors would count as memory; and the hooks by which the tracker tells kinds of
    memory apart are left out, because they take a unit of several modules for several units and gather it twice."""

    shapes_only = False

    def __init__(self, *args):
        self.allocators = [Allocator(expandable=True), Allocator(expandable=False)]
        super().__init__(*args)

    def _update_snap(self, u_type, winfo, old_mem_consumed=None, old_reftype=None):
        super()._update_snap(u_type, winfo, old_mem_consumed, old_reftype)
        if u_type.name != "REF":
            for a in self.allocators:
                if id(winfo) in a.held:
                    a.free(id(winfo))
                if u_type.name != "DEL" and winfo.mem_consumed > 0:
                    a.allocate(id(winfo), winfo.mem_consumed, id(torch.cpu.current_stream()))

    def _instrument_fsdp_module(self):
        for module in self._root_mod.modules():
            if isinstance(module, FSDPModule) and (group := module._get_fsdp_state()._fsdp_param_group):
                self._instrument_fsdp_sharded_params_grads(group)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.shapes_only:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def aside(method):
    def wrapped(*args, **kwargs):
        before, Tracker.shapes_only = Tracker.shapes_only, True
        try:
            return method(*args, **kwargs)
        finally:
            Tracker.shapes_only = before

    return wrapped


ShardingPropagator._propagate_tensor_meta_non_cached = aside(ShardingPropagator._propagate_tensor_meta_non_cached)


class FusedNorm(torch.autograd.Function):
    """Inputs and saved tensors of a fused kernel; fake tensors need no computation."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class Norm(nn.Module):
    """RMSNorm. Before PyTorch 2.9 it was not one kernel on GPUs, but operations in fp32 that save their inputs."""

    fused = True

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim))

    def forward(self, x):
        if Norm.fused:
            return FusedNorm.apply(x, self.weight)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.d = hidden // heads
        self.wq = nn.Linear(hidden, hidden, bias=False)
        self.wk = nn.Linear(hidden, kv_heads * self.d, bias=False)
        self.wv = nn.Linear(hidden, kv_heads * self.d, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, turns):
        b, t, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (y.view(b, t, -1, self.d) for y in (q, k, v))
        q, k = rotate(q, turns), rotate(k, turns)
        n = q.shape[2] // k.shape[2]
        q, k, v = (y.transpose(1, 2) for y in (q, repeated(k, n), repeated(v, n)))
        return self.wo(attend(q, k, v).transpose(1, 2).contiguous().view(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.w1 = nn.Linear(hidden, ffn, bias=False)
        self.w2 = nn.Linear(ffn, hidden, bias=False)
        self.w3 = nn.Linear(hidden, ffn, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.attention_norm, self.ffn_norm = Norm(hidden), Norm(hidden)
        self.attention = Attention(hidden, heads, kv_heads)
        self.feed_forward = FeedForward(hidden, ffn)

    def forward(self, x, turns):
        h = x + self.attention(self.attention_norm(x), turns)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn, words, layers, seq):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, hidden)
        self.register_buffer("turns", torch.empty(seq, hidden // heads // 2, dtype=torch.complex64), persistent=False)
        self.layers = nn.ModuleList(Block(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = Norm(hidden)
        self.output = nn.Linear(hidden, words, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h, self.turns)
        return self.output(self.norm(h))


SAVED = {
    aten.mm.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


def every_second_product():
    """torchtitan's selective_ac_option 'op'."""
    count = {"forward": 0, "again": 0}

    def policy(ctx, func, *args, **kwargs):
        mode = "again" if ctx.is_recompute else "forward"
        if func is aten.mm.default:
            count[mode] += 1
        keep = func in SAVED and not (func is aten.mm.default and count[mode] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpointed(net, how):
    """how: none, full, op, or layer:N (every N-th block in full)."""
    if how == "none":
        return
    every = int(how.split(":")[1]) if how.startswith("layer:") else 1
    for i, block in enumerate(net.layers):
        if (i + 1) % every:
            continue
        more = {"context_fn": every_second_product} if how == "op" else {}
        net.layers[i] = checkpoint_wrapper(block, preserve_rng_state=False, **more)


def sharded(net, mesh, reshard, units):
    """units: 'blocks' leaves both tables to the root; 'ends' makes the embedding and the head units of their own."""
    how = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    if units == "ends":
        fully_shard(net.tok_embeddings, **how, reshard_after_forward=reshard)
    for i, block in enumerate(net.layers):
        last = i == len(net.layers) - 1 and units == "blocks"  # needed again at once
        fully_shard(block, **how, reshard_after_forward=reshard and not last)
    if units == "ends":
        fully_shard([net.norm, net.output], **how, reshard_after_forward=False)
    fully_shard(net, **how, reshard_after_forward=reshard)


def peak(net_of, layers, mesh, seq, batch, ac, reshard=True, units="ends", device="cpu", steps=3):
    hidden, heads, kv_heads, ffn, words, _ = NETS[net_of]
    with torch.device(device):
        net = Llama(hidden, heads, kv_heads, ffn, words, layers, seq)
    checkpointed(net, ac)
    sharded(net, mesh, reshard, units)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    tracker = Tracker(net, optimizer)
    with tracker:
        for step in range(steps):
            if step:
                tracker.reset_mod_stats()
            tokens = torch.zeros(batch, seq, dtype=torch.int64, device=device)
            labels = torch.zeros(batch, seq, dtype=torch.int64, device=device)
            optimizer.zero_grad()
            logits = net(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))
            del logits
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
            optimizer.step()
    (parts,) = tracker.get_tracker_snapshot("peak").values()
    return (parts["Total"], *(a.peak for a in tracker.allocators))


# Allocated bytes, reserved bytes with expandable segments, and without
FIGURES = ["peak_bytes", "reserved_bytes", "segments_bytes"]
COLUMNS = ["net", "layers", "ranks", "seq", "batch", "recompute", "reshard", "units", "norm"]


def grid():
    """Variations of one base case of each net (8 ranks, one sample of 8,192 tokens each)."""

    def row(net, layers, ranks=8, seq=8192, batch=1, recompute="none", reshard=1, units="ends", norm="fused"):
        return dict(zip(COLUMNS, (net, layers, ranks, seq, batch, recompute, reshard, units, norm)))

    for net, layers in (("llama-1b", 16), ("llama-8b", 32), ("llama-70b", 10)):
        for recompute in ("none", "full", "op"):
            for ranks in (8, 64) if net != "llama-8b" else (8, 64, 128):
                yield row(net, layers, ranks, recompute=recompute)
            yield row(net, layers, seq=2048, recompute=recompute)
            yield row(net, layers, seq=2048, batch=2, ranks=64, recompute=recompute)
            yield row(net, layers, batch=2, recompute=recompute)
            yield row(net, layers, norm="parts", recompute=recompute)
            yield row(net, layers, seq=2048, reshard=0, recompute=recompute)
            yield row(net, layers, seq=2048, units="blocks", norm="parts", recompute=recompute)
    yield row("llama-8b", 32, recompute="layer:2")
    yield row("llama-70b", 80, ranks=64, recompute="full")
    yield row("llama-70b", 80, ranks=256, recompute="op")


def computed(row):
    """Bytes, in a fake world."""
    dist.init_process_group("fake", rank=0, world_size=int(row["ranks"]), store=FakeStore())
    mesh = init_device_mesh("cpu", (int(row["ranks"]),))
    Norm.fused = row["norm"] == "fused"
    with FakeTensorMode():
        bytes_ = peak(row["net"], int(row["layers"]), mesh, int(row["seq"]), int(row["batch"]), row["recompute"],
                      row["reshard"] in (1, "1"), row["units"])
    dist.destroy_process_group()
    return bytes_


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows of one net")
    parser.add_argument("--limit", type=int, default=1000, help="so many rows, evenly drawn")
    parser.add_argument("--check", metavar="CSV", help="recompute rows of a table; exit code 1 where one moved by 1 %%")
    parser.add_argument("--gloo", action="store_true", help="two real processes beside a fake world of two")
    options = parser.parse_args()
    if options.gloo:
        return gloo()
    table = options.check
    rows = list(csv.DictReader(open(table))) if table else list(grid())
    rows = [r for r in rows if options.only in r["net"]]
    rows = rows[:: max(1, -(-len(rows) // options.limit))]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS + FIGURES + ["torch"])
    moved = 0
    for row in rows:
        figures = computed(row)
        out.writerow([*(row[c] for c in COLUMNS), *figures, torch.__version__.split("+")[0]])
        sys.stdout.flush()
        if table:
            moved += any(abs(new / float(row[f]) - 1) > 0.01 for f, new in zip(FIGURES, figures))
    return 1 if moved else 0


def real(rank, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    Norm.fused = False
    dist.init_process_group("gloo", rank=rank, world_size=2)
    queue.put((rank, peak("llama-debug", 4, init_device_mesh("cpu", (2,)), 512, 2, "full")[0]))
    dist.barrier()
    dist.destroy_process_group()


def gloo():
    """Memory of two real processes, beside the same with fake tensors."""
    import torch.multiprocessing as mp

    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(real, (29600 + os.getpid() % 1000, queue), nprocs=2)
    measured = max(queue.get()[1] for _ in range(2))
    fake = computed(dict(zip(COLUMNS, ("llama-debug", 4, 2, 512, 2, "full", 1, "ends", "parts"))))[0]
    print(f"two processes {measured / 2**20:.2f} MiB, fake {fake / 2**20:.2f} MiB, {100 * (fake / measured - 1):+.2f} %")
    return 1 if abs(fake / measured - 1) > 0.01 else 0


if __name__ == "__main__":
    sys.exit(main())
