"""Runs whose layout experts documented, asked as a user would: is it among the five best, and is its time right?

    python3 tests/studies/documented-runs.py --isobar build/isobar [--table]     # some minutes

Each row is one `isobar search` for the net, machine and number of accelerators, with the engine named and nothing said of
the layout; and one `isobar predict` of the documented layout. tests/studies/documented-runs.txt has what was seen. Fails
where fewer than five rows hold, or one that held there does not.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "configs" / "models"
LLAMA2_7B = "llama3-8b net.num_kv_heads=32 net.ffn_dim=11008 net.vocab_size=32000 net.rope_theta=10000 net.seq_length=4096"
LLAMA2_13B = f"{LLAMA2_7B} net.embed_dim=5120 net.depth=40 net.num_heads=40 net.num_kv_heads=40 net.ffn_dim=13824"
LLAMA2_70B = "llama3-70b net.vocab_size=32000 net.rope_theta=10000 net.seq_length=4096"
ALEPH_13B = f"{LLAMA2_13B} net.vocab_size=128000"
GPT3_5B = "gpt3-175b net.embed_dim=4096 net.depth=24 net.num_heads=32"

# source and row; net; engine, machine, accelerators, what else a user says; documented layout; its further settings; measured s
ROWS = [
    ("aleph_alpha_layouts", f"{ALEPH_13B} net.seq_length=2048", "megatron dgx-a100 32", "policy.amp=bf16 train.global_batch=2048",
     "dp=32", "policy.zero=1 policy.recompute=none", 53.81),
    ("aleph_alpha_layouts", f"{ALEPH_13B} net.seq_length=8192", "megatron dgx-a100 64", "policy.amp=bf16 train.global_batch=512",
     "dp=16 tp=2 pp=2", "policy.zero=1 policy.recompute=none", 34.84),
    ("nvidia_nemo", GPT3_5B, "nemo dgx-h100 64", "policy.amp=fp8 train.global_batch=2048",
     "dp=64", "policy.micro_batch=4 policy.zero=1 policy.recompute=none", 2.80),
    ("nvidia_nemo", LLAMA2_7B, "nemo dgx-h100 8", "policy.amp=fp8 train.global_batch=128",
     "dp=8", "policy.zero=1 policy.recompute=none", 3.89),
    ("nvidia_nemo", LLAMA2_13B, "nemo dgx-h100 16", "policy.amp=fp8 train.global_batch=128",
     "dp=4 pp=4", "layout.vpp=10 policy.zero=1 policy.recompute=none", 3.76),
    ("nvidia_nemo", LLAMA2_70B, "nemo dgx-h100 64", "policy.amp=fp8 train.global_batch=128",
     "dp=4 tp=4 pp=4", "layout.vpp=20 policy.zero=1 policy.recompute=none", 4.77),
    ("nvidia_nemo", "llama3-8b", "nemo dgx-h100 8", "policy.amp=fp8 train.global_batch=128",
     "dp=4 cp=2", "policy.zero=1 policy.recompute=none", 10.89),
    ("nvidia_nemo", "llama3-70b", "nemo dgx-h100 64", "policy.amp=fp8 train.global_batch=128",
     "dp=2 tp=4 cp=2 pp=4", "layout.vpp=5 policy.zero=1 policy.recompute=none", 10.69),
    ("nvidia_nemo", "gpt3-175b", "nemo dgx-h100 512", "policy.amp=fp8 train.global_batch=2048",
     "dp=16 tp=4 pp=8", "layout.vpp=6 policy.micro_batch=2 policy.zero=1 policy.recompute=none", 9.93),
    ("nvidia_nemo", "llama3-8b", "nemo gb200-nvl72 8", "policy.amp=fp8 train.global_batch=128",
     "dp=8", "policy.micro_batch=2 policy.zero=1 policy.recompute=none", 4.13),
    ("nvidia_nemo", "llama3-70b", "nemo dgx-b200 64", "policy.amp=fp8 train.global_batch=128",
     "dp=4 tp=2 cp=2 pp=4", "layout.vpp=5 policy.zero=1 policy.recompute=none", 5.35),
    ("mlperf_gpt3", "gpt3-175b", "mlperf dgx-h100 512", "policy.amp=fp8 train.global_batch=2048",
     "dp=16 tp=4 pp=8", "layout.vpp=6 policy.micro_batch=2 policy.zero=1 policy.recompute=none", 9.50),
    ("torchtitan", "llama3-8b", "torchtitan h100-96gb 128", "policy.amp=bf16 train.global_batch=256",
     "dp=128", "policy.micro_batch=2 policy.zero=3 policy.recompute=selective", 256 * 8192 / (128 * 6514)),
    ("torchtitan", "llama3-405b", "torchtitan h100-96gb 512", "policy.amp=fp8 train.global_batch=256",
     "dp=8 tp=8 pp=8", "policy.zero=3 policy.recompute=full layout.vpp=2", 256 * 8192 / (512 * 128)),
    ("megatron_sc21", "gpt3-175b", "megatron dgx-a100 384", "policy.amp=fp16 train.global_batch=1536",
     "dp=4 tp=8 pp=12", "policy.zero=0 policy.recompute=full", 76.8),
]


def asked(isobar, command, row, further):
    _, net, run, said, *_ = row
    model, *sets = net.split()
    engine, machine, gpus = run.split()
    words = [isobar, command, MODELS / f"{model}.yaml", "--machine", machine, "--engine", engine, "--json"]
    if command == "search":
        words += ["--gpus", gpus]
    for setting in [*sets, *said.split(), *further]:
        words += ["--set", setting]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")


def layout_of(settings):
    sizes = dict(s.split("=") for s in settings.split())
    return tuple(int(sizes.get(k, 1)) for k in ("dp", "tp", "cp", "pp"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", type=pathlib.Path, required=True)
    parser.add_argument("--table", action="store_true", help="print every row")
    parser.add_argument("--only", type=int, nargs="+")
    options = parser.parse_args()
    held = 0
    for i, row in enumerate(ROWS):
        if options.only and i not in options.only:
            continue
        source, net, run, _, layout, policy, measured = row
        best = asked(options.isobar, "search", row, [])
        said = asked(options.isobar, "predict", row, [f"layout.{s}" for s in layout.split()] + policy.split())
        print(json.dumps(best)[:3000] if options.only else "", said["step_s"], measured)


if __name__ == "__main__":
    main()
