"""Runs whose layout experts documented, asked as a user would: is it among the five best, and is its time right?

    python3 tests/studies/documented-runs.py --isobar build/isobar [--table]     # half a minute; all rows: one and a half

Each row is one `isobar search` for the net, machine and number of accelerators, with the engine named and nothing said of
the layout; and one `isobar predict` of the documented layout. tests/studies/documented-runs.txt has what was seen, and which
rows of which table. Fails where a row that held there is not among the five best, or is off by more than a tenth;
the others are asked with --table alone.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

MODELS = pathlib.Path(__file__).resolve().parent.parent.parent / "configs" / "models"
LLAMA2_7B = "llama3-8b net.num_kv_heads=32 net.ffn_dim=11008 net.vocab_size=32000 net.rope_theta=10000 net.seq_length=4096"
LLAMA2_13B = ("llama3-8b net.embed_dim=5120 net.depth=40 net.num_heads=40 net.num_kv_heads=40 net.ffn_dim=13824 "
              "net.rope_theta=10000 net.vocab_size=")
LLAMA2_70B = "llama3-70b net.vocab_size=32000 net.rope_theta=10000 net.seq_length=4096"
GPT3_5B = "gpt3-175b net.embed_dim=4096 net.depth=24 net.num_heads=32"
BF16, FP16, FP8 = ("policy.amp=" + amp for amp in ("bf16", "fp16", "fp8"))

# rows of a table; net; engine, machine, accelerators; precision, batch; documented layout, its policy; measured seconds; holds
ROWS = [
    ("aleph_alpha_layouts, 13B, 2k tokens", f"{LLAMA2_13B}128000 net.seq_length=2048", "megatron dgx-a100 32", BF16, 2048,
     "dp=32", "zero=1", 53.81, False),
    ("aleph_alpha_layouts, 13B, 8k tokens", f"{LLAMA2_13B}128000 net.seq_length=8192", "megatron dgx-a100 64", BF16, 512,
     "dp=16 tp=2 pp=2", "zero=1", 34.84, True),
    ("nvidia_nemo 001, 019, 037", GPT3_5B, "nemo dgx-h100 64", FP8, 2048, "dp=64", "micro_batch=4 zero=1", 2.80, True),
    ("nvidia_nemo 005, 023, 041", LLAMA2_7B, "nemo dgx-h100 8", FP8, 128, "dp=8", "zero=1", 3.89, True),
    ("nvidia_nemo 006, 024, 042", f"{LLAMA2_13B}32000 net.seq_length=4096", "nemo dgx-h100 16", FP8, 128,
     "dp=4 pp=4 vpp=10", "zero=1", 3.76, False),
    ("nvidia_nemo 007, 025, 043", LLAMA2_70B, "nemo dgx-h100 64", FP8, 128, "dp=4 tp=4 pp=4 vpp=20", "zero=1", 4.77, True),
    ("nvidia_nemo 011, 029, 047", "llama3-8b", "nemo dgx-h100 8", FP8, 128, "dp=4 cp=2", "zero=1", 10.89, False),
    ("nvidia_nemo 012, 030, 048", "llama3-70b", "nemo dgx-h100 64", FP8, 128, "dp=2 tp=4 cp=2 pp=4 vpp=5", "zero=1", 10.69, True),
    ("nvidia_nemo 004, 022, 040", "gpt3-175b", "nemo dgx-h100 512", FP8, 2048, "dp=16 tp=4 pp=8 vpp=6", "micro_batch=2 zero=1",
     9.93, False),
    ("nvidia_nemo 062", "llama3-8b", "nemo gb200-nvl72 8", FP8, 128, "dp=8", "micro_batch=2 zero=1", 4.13, True),
    ("nvidia_nemo 069", "llama3-70b", "nemo dgx-b200 64", FP8, 128, "dp=4 tp=2 cp=2 pp=4 vpp=5", "zero=1", 5.35, False),
    ("mlperf_gpt3 019", "gpt3-175b", "mlperf dgx-h100 512", FP8, 2048, "dp=16 tp=4 pp=8 vpp=6", "micro_batch=2 zero=1", 9.50, False),
    ("torchtitan 005", "llama3-8b", "torchtitan h100-96gb 128", BF16, 256, "dp=128", "micro_batch=2 zero=3 recompute=selective",
     256 * 8192 / (128 * 6514), True),
    ("torchtitan 013", "llama3-405b", "torchtitan h100-96gb 512", FP8, 256, "dp=8 tp=8 pp=8 vpp=2", "micro_batch=4 zero=2 recompute=full",
     256 * 8192 / (512 * 128), False),
    ("megatron_sc21_table2 007", "gpt3-175b", "megatron dgx-a100 384", FP16, 1536, "dp=4 tp=8 pp=12",
     "zero=0 recompute=full sequence_parallel=false", 76.8, False),
    ("nvidia_megatron_bridge 080, 127, 171, 207", "llama3-70b", "nemo dgx-h100 64", FP8, 256, "dp=2 tp=4 pp=8 vpp=5", "zero=1", 19.99,
     False),
    ("nvidia_megatron_bridge 050, 101, 147", "qwen3-30b-a3b", "nemo dgx-h100 16", FP8, 1024, "dp=16 ep=16", "zero=1", 29.45, False),
    ("dgxc_moe 025", "deepseek-v3", "nemo dgx-h100 1024", BF16, 8192, "dp=32 tp=2 pp=16 ep=64", "zero=1", 52.04, False),
]


def asked(isobar, command, row, further):
    _, net, run, precision, batch, *_ = row
    model, *sets = net.split()
    engine, machine, gpus = run.split()
    words = [isobar, command, MODELS / f"{model}.yaml", "--machine", machine, "--engine", engine, "--json"]
    words += ["--gpus", gpus] if command == "search" else []
    for setting in [*sets, precision, f"train.global_batch={batch}", *further]:
        words += ["--set", setting]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600)
    try:
        return json.loads(done.stdout), " ".join(["isobar", command, model, *map(str, words[3:])])
    except ValueError:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")


def documented(layout, policy):
    """The settings, and (dp, tp, cp, pp, ep)."""
    sizes = {"tp": 1, "cp": 1, "pp": 1, **dict(word.split("=") for word in layout.split())}
    choices = {"recompute": "none", "micro_batch": 1, "sequence_parallel": "true" if int(sizes["tp"]) > 1 else "false",
               "schedule": "interleaved" if "vpp" in sizes else "1f1b", **dict(word.split("=") for word in policy.split())}
    settings = [f"layout.{k}={v}" for k, v in sizes.items()] + [f"policy.{k}={v}" for k, v in choices.items()]
    return settings, tuple(int(sizes.get(k, 1)) for k in ("dp", "tp", "cp", "pp", "ep"))


def sizes_of(name):
    """Of a layout as a search names it: DP4 TP2+SP CP2 PP4 VPP10 MBS1 ZeRO1."""
    found = dict(re.findall(r"\b(DP|TP|CP|PP|EP)(\d+)", name))
    return tuple(int(found.get(k, 1)) for k in ("DP", "TP", "CP", "PP", "EP"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isobar", type=pathlib.Path, required=True)
    parser.add_argument("--table", action="store_true", help="print every row, with its commands")
    options = parser.parse_args()
    failed = False
    for row in ROWS:
        source, _, run, _, _, layout, policy, measured, holds = row
        if not options.table and not holds:
            continue
        settings, sizes = documented(layout, policy)
        found, search = asked(options.isobar, "search", row, [])
        said, predict = asked(options.isobar, "predict", row, settings)
        places = [sizes_of(b["layout"]) for b in found["best"][:5]]
        place = places.index(sizes) + 1 if sizes in places else None
        off = said["step_s"] / measured - 1
        held = place is not None and abs(off) <= 0.1
        failed = failed or (holds and not held)
        if options.table or (holds and not held):
            print(f"| {source} | {run} | {layout} | {place or '-'} | {found['best'][0]['layout']} | {said['step_s']:.3g} | "
                  f"{measured:.3g} | {off:+.1%} | {'yes' if held else 'no'} |\n    {search}\n    {predict}", flush=True)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
