"""The part of tests/gpu.sh that holds every net on the GPU against the CPU back end: gradients and weights."""

from session import MODELS, begin, end
from weights import hold

STEPS = 5
# A region of 15 x 30 patches, so that a CPU has its steps in seconds; net and weights are AuroraSmall's.
REGION = ["net.north=60", "net.west=0", "net.img_height=60", "net.img_width=120"]
# (case, configuration, precision, settings)
NETS = [
    ("vit fp32", "vit-tiny", "none", []),
    ("vit bf16", "vit-tiny", "bf16", []),
    ("aurora-tiny bf16", "aurora-tiny", "bf16", []),
    ("aurora-small bf16", "aurora-small", "bf16", [*REGION, "train.warmup=0", "train.global_batch=2"]),
    ("aurora-small bf16, own attention", "aurora-small", "bf16", [*REGION, "train.warmup=0", "train.global_batch=2", "run.attention=own"]),
    ("unet fp32", "unet-tiny", "none", []),
    ("graphcast fp32", "graphcast-tiny", "none", []),
    ("regional-gnn fp32", "regional-gnn-tiny", "none", []),
    ("mlp fp32", "mlp-emulator", "none", []),
    ("llama fp32", "llama-tiny", "none", []),
    ("llama bf16", "llama-tiny", "bf16", []),
    ("gpt fp32", "gpt-tiny", "none", []),
    ("llama, a window", "llama-tiny", "bf16", ["net.sliding_window=20"]),
    ("experts fp32", "moe-tiny", "none", ["net.expert_capacity_factor=0.8", "net.sliding_window=20"]),
    ("swin fp32", "swin-tiny", "none", []),
    ("swin bf16", "swin-tiny", "bf16", []),
    ("gpt bf16", "gpt-tiny", "bf16", []),
    ("aurora-tiny fp32", "aurora-tiny", "none", []),
    ("unet bf16", "unet-tiny", "bf16", []),
    ("graphcast bf16", "graphcast-tiny", "bf16", []),
    ("vit tf32", "vit-tiny", "tf32", []),
    ("vit fp16", "vit-tiny", "fp16", []),
]
REHEARSED = ("vit fp32", "vit bf16", "unet fp32", "graphcast fp32", "regional-gnn fp32", "mlp fp32", "llama fp32", "gpt fp32", "experts fp32", "swin fp32")


def nets(s, found):
    """every net against the CPU back end after 5 steps: gradients and weights, in fp32, tf32, bf16 and fp16"""
    s.needs("libcublasLt.so.13")

    def against_cpu(name, config, amp, more):
        sets = ["train.global_batch=4", f"policy.amp={amp}", "train.lr=1e-3", f"train.checkpoint_every={STEPS}", *more]
        reference = begin(s, MODELS / f"{config}.yaml", sets, STEPS, cpu=True)  # beside the GPU's run
        try:
            run = end(s, begin(s, MODELS / f"{config}.yaml", sets, STEPS))
            hold(s, found, name, run, end(s, reference), amp)
        finally:
            s.kill(reference.started)

    for name, config, amp, more in NETS:
        if not s.rehearse or name in REHEARSED:
            s.case(name, 60, lambda a=(name, config, amp, more): against_cpu(*a))
