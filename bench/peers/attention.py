"""Rates of attention on one core of this machine, by tokens and head size: Isobar's on each instruction set and PyTorch's
scaled_dot_product_attention, beside the machine's f32 products (oneDNN's sgemm, 4050 x 1536 x 384).

    bench/peers/run.sh --attention                                  # everything; takes minutes
    bench/peers/run.sh --attention --tokens 4050 --peers isobar     # part of it
    bench/peers/run.sh --attention --paths avx512,avx2 --types f32 --out mine.json

One head, nothing masked; GFLOP/s of 4 T^2 d forward and 10 T^2 d backward. Paths are the
values of ISOBAR_MAX_ISA that this CPU supports; bf16 uses the best one, f32 each vector width. Isobar's rates come from
build/attention_benchmark, PyTorch's are the best of several calls after a warm-up. Prints a table, and with --out writes it as JSON.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PASSES = ("forward", "backward")


def available_paths():
    """The instruction sets of this CPU, best first (the names of ISOBAR_MAX_ISA)."""
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    needs = {"amx": {"amx_bf16", "amx_tile", "avx512_bf16"}, "avx512_bf16": {"avx512f", "avx512_bf16"},
             "avx512": {"avx512f", "avx512bw"}, "avx2": {"avx2", "fma"}}
    return [name for name, wanted in needs.items() if wanted <= flags]


def cases(args):
    """(peer or path, type), each a column pair of the table"""
    have = args.paths.split(",") if args.paths else available_paths()
    for kind in args.types.split(","):
        if "isobar" in args.peers:
            paths = [p for p in have if kind == "f32" and p in ("avx512", "avx2")] or have[:1]
            if kind == "bf16":
                paths = [p for p in have if p in ("amx", "avx512_bf16")]
            yield from ((path, kind) for path in paths)
        if "torch" in args.peers:
            yield "torch", kind


def isobar_rates(args, path, kind):
    """{(pass, tokens, head size): (GFLOP/s, sgemm GFLOP/s)} of attention_benchmark limited to a path"""
    tokens, sizes = args.tokens.replace(",", "|"), args.head_sizes.replace(",", "|")
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([args.benchmark, f"--benchmark_filter=^({'|'.join(PASSES)})/{kind}/({tokens})/({sizes})/",
                        f"--benchmark_min_time={args.seconds}", f"--benchmark_out={out.name}"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"ISOBAR_MAX_ISA": path})
        found = json.load(open(out.name))
    if found["context"]["isa"] != path:
        sys.exit(f"asked for path {path}, but attention_benchmark ran {found['context']['isa']}: this CPU has no {path}")
    rates = {}
    for b in found["benchmarks"]:
        what, _, t, d = b["name"].split("/")[:4]
        rates[what, int(t), int(d)] = (b["FLOP/s"] / 1e9, b["sgemm"] / 1e9)
    return rates


def torch_rates(args, kind):
    import torch
    torch.set_num_threads(1)
    dtype = torch.float32 if kind == "f32" else torch.bfloat16

    def best(call):
        call()
        spent, least = 0.0, float("inf")
        while spent < args.seconds:
            begin = time.perf_counter()
            call()
            took = time.perf_counter() - begin
            spent, least = spent + took, min(least, took)
        return least

    rates = {}
    for t in map(int, args.tokens.split(",")):
        for d in map(int, args.head_sizes.split(",")):
            q, k, v = (torch.randn(1, 1, t, d, dtype=dtype, requires_grad=True) for _ in range(3))
            d_o = torch.randn(1, 1, t, d, dtype=dtype)
            attention = torch.nn.functional.scaled_dot_product_attention
            with torch.no_grad():
                forward = best(lambda: attention(q, k, v))
            out = attention(q, k, v)
            backward = best(lambda: torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True))
            rates["forward", t, d] = (4 * t * t * d / forward / 1e9, None)
            rates["backward", t, d] = (10 * t * t * d / backward / 1e9, None)
    return rates


def print_table(args, columns, rates, sgemm):
    heads = [f"{path} {kind}" for path, kind in columns]
    print(f"\nGFLOP/s a core, forward / backward; sgemm here: {sgemm:.0f}" if sgemm else "\nGFLOP/s a core")
    print("| tokens | d | " + " | ".join(heads) + " |\n|---|---|" + "---|" * len(heads))
    for t in map(int, args.tokens.split(",")):
        for d in map(int, args.head_sizes.split(",")):
            cells = []
            for column in columns:
                both = [rates[column][what, t, d] for what in PASSES]
                share = "" if column[0] == "torch" or column[1] != "f32" else (
                    " (" + " / ".join(f"{r / s:.0%}" for r, s in both) + ")")
                cells.append(" / ".join(f"{r:.0f}" for r, _ in both) + share)
            print(f"| {t} | {d} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="512,4050,16200")
    parser.add_argument("--head-sizes", default="32,48,64,128,192")
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--paths", default="", help="instruction sets of ours (default: all that this CPU has)")
    parser.add_argument("--peers", default="isobar,torch")
    parser.add_argument("--seconds", type=float, default=0.1, help="least time of a case")
    parser.add_argument("--benchmark", default=str(ROOT / "build" / "attention_benchmark"))
    parser.add_argument("--out", help="a file for the rates as JSON")
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # pin to one fixed core

    columns = list(cases(args))
    rates = {(path, kind): torch_rates(args, kind) if path == "torch" else isobar_rates(args, path, kind)
             for path, kind in columns}
    products = [s for table in rates.values() for _, s in table.values() if s]
    sgemm = max(products, default=None)
    print_table(args, columns, rates, sgemm)
    if args.out:
        rows = [{"path": path, "type": kind, "pass": what, "tokens": t, "d": d, "gflops": round(r, 1),
                 "sgemm": s and round(s, 1)} for (path, kind), table in rates.items() for (what, t, d), (r, s) in table.items()]
        cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
        pathlib.Path(args.out).write_text(json.dumps({"cpu": cpu, "sgemm_gflops": sgemm, "rates": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
