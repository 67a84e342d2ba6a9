"""The fastest steps that PyTorch makes of a net in bf16 on one device: one JSON line a case, the most telling first.

All cases: fp32 weights, autocast to bf16, fused Adam, cuDNN's attention or FlashAttention, and one batch that stays on the
device. `compile` is the whole net by torch.compile, `eager` runs op by op. A case that fails says so in its line, and the
next one runs.
"""

import dataclasses
import json
import statistics
import time

import torch
from vit import time_steps


@dataclasses.dataclass
class Heads:
    """Shape of the net's attention"""
    heads: int
    kv_heads: int
    d: int
    tokens: int
    causal: bool


def attention_of(h):
    """The backend that a training step of these heads gets."""
    from torch.nn.attention import SDPBackend
    q, k = (torch.randn(1, h.tokens, n, h.d, device="cuda", dtype=torch.bfloat16, requires_grad=True).transpose(1, 2)
            for n in (h.heads, h.kv_heads))
    choice = torch._fused_sdp_choice(q, k, k, is_causal=h.causal, enable_gqa=h.heads != h.kv_heads)
    return str(SDPBackend(choice)).rsplit(".", 1)[-1]


def run(case, args, build, heads):
    torch.manual_seed(0)
    torch._dynamo.reset()
    gpu = args.device == "cuda"
    net, loss_of = build()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, betas=(0.9, 0.95), fused=True)
    forward = torch.compile(net) if case == "compile" else net
    wait = torch.cuda.synchronize if gpu else lambda: None

    def autocast_forward(*x):
        with torch.autocast(args.device, dtype=torch.bfloat16):
            return forward(*x)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(autocast_forward)
        loss.backward()
        optimizer.step()
        return loss

    begun = time.perf_counter()
    first = step().item()
    wait()
    first_step_s = time.perf_counter() - begun
    for _ in range(3):
        step()
    wait()
    seconds, last = time_steps(step, args.steps, args.device)
    r = {"case": case, "torch": torch.__version__, "batch": args.batch, "step_s": statistics.median(seconds), "first_step_s": first_step_s,
         "seconds": seconds, "losses": [first, last], "parameters": sum(p.numel() for p in net.parameters())}
    if gpu:
        r |= {"attention": attention_of(heads), "peak_bytes": torch.cuda.max_memory_allocated(), "cudnn": torch.backends.cudnn.version()}
    return r


def measure(args, build, heads):
    """Runs args.cases, a line each. build() gives the net and a function from a forward pass to the loss."""
    torch.backends.cuda.matmul.allow_tf32 = True
    if args.device == "cuda":  # cuDNN's attention, or FlashAttention where PyTorch does not take these heads for it
        torch.backends.cuda.enable_math_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(True)
    for case in args.cases.split(","):
        try:
            print(json.dumps(run(case, args, build, heads)), flush=True)
        except Exception as e:
            print(json.dumps({"case": case, "error": f"{type(e).__name__}: {e}"[:400]}), flush=True)
