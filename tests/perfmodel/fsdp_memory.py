#!/usr/bin/env python3
"""Where PyTorch is: rows of tests/golden/fsdp_memory.csv computed anew, and a fake world beside two real processes.

    tests/perfmodel/fsdp_memory.py [--python PYTHON] [--rows N]
"""
import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CAN = "from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker; import torch.distributed.fsdp as f; f.fully_shard"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python that has PyTorch; .venv-peers' where there is one")
    parser.add_argument("--rows", default="2")
    options = parser.parse_args()
    peers = os.path.join(ROOT, ".venv-peers", "bin", "python")
    python = options.python or (peers if os.path.exists(peers) else sys.executable)
    if subprocess.run([python, "-c", CAN], capture_output=True, check=False).returncode:
        print("SKIPPED: no PyTorch with FSDP2 and its memory tracker (bench/peers/run.sh makes .venv-peers)")
        return 0
    script = os.path.join(ROOT, "bench", "peers", "fsdp_memory.py")
    table = os.path.join(ROOT, "tests", "golden", "fsdp_memory.csv")
    for how in (["--check", table, "--only", "llama-1b", "--limit", options.rows], ["--gloo"]):
        if code := subprocess.run([python, script, *how], check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
