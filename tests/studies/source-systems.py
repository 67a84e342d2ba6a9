"""The systems that Isobar grew out of, asked as their users would: question, answer, published figure.

    python3 tests/studies/source-systems.py --isobar build/isobar [--table]     # half a minute

Each row is `isobar predict` with --engine named; a rate may be one over another's. tests/studies/source-systems.txt has the
sources and what the deviations are. Fails where an answer leaves the bound of its row; deviations that
are known have wide ones.
"""

import argparse
import json
import pathlib
import subprocess
import sys

CONFIGS = pathlib.Path(__file__).resolve().parent.parent.parent / "configs"
VIT = "vit-384 perlmutter policy.micro_batch=16 data.workers=8"
ONE = f"{VIT} train.global_batch=16"
MP = "vit-1536 policy.micro_batch=16 train.global_batch=64 policy.amp=fp16 data.workers=8 layout.dp=4"
ZERO = "llama3-8b aurora layout.dp=48 policy.micro_batch=1 train.global_batch=48 policy.amp=bf16 policy.recompute=full"
MLP = "mlp-emulator cpu-cluster-40 policy.micro_batch=1000 --ranks-on-host=1"
MLP_ON_ONE = f"pytorch {MLP} train.global_batch=1000"

# system and question; engine, net, machine and settings (over another's); key of the answer; published; bound of |answer / published - 1|
ROWS = [
    ("NERSC: one A100, TF32", f"pytorch {ONE} policy.amp=tf32", "samples_per_s", 12.2, 0.15),
    ("NERSC: the same without TF32", f"pytorch {ONE} policy.amp=none", "samples_per_s", 9.24, 0.15),
    ("NERSC: fp16", f"pytorch {ONE} policy.amp=fp16", "samples_per_s", 53.4, 0.15),
    ("NERSC: bf16, compiled", f"pytorch-compiled {ONE} policy.amp=bf16", "samples_per_s", 63.5, 0.15),
    ("NERSC: TF32, by the engine of its own runs", f"nersc {ONE} policy.amp=tf32", "samples_per_s", 12.2, 0.15),
    ("NERSC: 4 A100, batch 64", f"pytorch-compiled {VIT} train.global_batch=64 layout.dp=4 policy.amp=bf16", "samples_per_s", 203, 0.25),
    ("NERSC: 64 A100, batch 1024", f"pytorch-compiled {VIT} train.global_batch=1024 layout.dp=64 policy.amp=bf16", "samples_per_s",
     2558, 0.5),
    ("NERSC: width 1536 on 4 A100 of 80 GB", f"nersc {MP} perlmutter-80gb", "samples_per_s", 51.3, 0.15),
    ("NERSC: the same on 16 by tp 4", f"nersc {MP} perlmutter-80gb layout.tp=4", "samples_per_s", 72.4, 0.15),
    ("NERSC: the same on 4 of 40 GB", f"nersc {MP} perlmutter", "fits", False, 0),
    ("Aurora: a step of pre-training on 32 A100", "pytorch aurora dgx-a100", "step_s", 10, 0.5),
    ("Aurora: training on 80 GB with checkpointing", "pytorch aurora dgx-a100", "fits", True, 0),
    ("Aurora: without checkpointing", "pytorch aurora dgx-a100 policy.recompute=none", "fits", False, 0),
    ("Aurora: on 40 GB", "pytorch aurora dgx-a100-40gb", "fits", False, 0),
    ("Lightning on XPUs: 8 B parameters by DDP", f"deepspeed {ZERO} policy.zero=0", "fits", False, 0),
    ("Lightning on XPUs: by DeepSpeed stage 2", f"deepspeed {ZERO} policy.zero=2", "fits", True, 0),
    ("GraphCast: a sample on each of 32 devices of 80 GB", "pytorch graphcast dgx-a100", "fits", True, 0),
    ("GraphCast: of 32 GB, as its paper's", "pytorch graphcast dgx-a100 --what-if=memory_size*0.4", "fits", True, 1),
    ("GraphCast: without checkpointing, 40 GB", "pytorch graphcast dgx-a100-40gb policy.recompute=none", "fits", False, 0),
    ("Regional GNN: A100, batch 8, compiled",
     "pytorch-compiled regional-gnn dgx-a100-40gb policy.micro_batch=8 train.global_batch=8", "step_s", 0.3, 1.6),
    ("Emulator: 2 nodes over 1", f"pytorch {MLP} train.global_batch=2000 layout.dp=2", "samples_per_s", 1.8, 0.25, MLP_ON_ONE),
    ("Emulator: 4 nodes over 1", f"pytorch {MLP} train.global_batch=4000 layout.dp=4", "samples_per_s", 3, 0.35, MLP_ON_ONE),
]


def answer(isobar, asked):
    engine, net, *words = asked.split()
    machine = next(w for w in words if "=" not in w)
    command = [isobar, "predict", CONFIGS / "models" / f"{net}.yaml", "--machine", machine, "--engine", engine, "--json"]
    for word in words:
        command += [word] if word.startswith("--") else ["--set", word] if "=" in word else []
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{asked}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", type=pathlib.Path, required=True)
    parser.add_argument("--table", action="store_true", help="print every row")
    options = parser.parse_args()
    failed = False
    for question, asked, key, published, bound, *over in ROWS:
        said = answer(options.isobar, asked)[key]
        for other in over:
            said /= answer(options.isobar, other)[key]
        off = abs(said / published - 1) if published else abs(said - published)
        failed = failed or off > bound
        shown = ("yes" if said else "no", "yes" if published else "no") if key == "fits" else (f"{said:.3g}", f"{published:g}")
        if options.table or off > bound:
            print(f"| {question} | {asked.split()[0]} | {key} | {shown[0]} | {shown[1]} | "
                  + (f"{said / published - 1:+.0%} |" if key != "fits" else "|"), flush=True)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
