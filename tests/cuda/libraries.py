"""The matrix instructions that the products of this program run on: which of cuBLASLt's kernels for Hopper hold HGMMA.

    libraries.py --library /usr/local/cuda/lib64/libcublasLt.so.13

Kernels with a bf16 product are taken out of the library, the smallest object that has what is asked for is disassembled:
a plain product and one whose epilogue is GELU's gradient must hold HGMMA (Hopper's matrix instruction for a group of four
warps), and the latter MUFU.TANH, because it is the tanh form: what net.gelu must say for it to be used. Most products
are generated when they are first run (nvjet), as is cuDNN's attention: of those only their rate on a GPU speaks
(tests/gpu.sh, part steps). Takes 15 s and 300 MB of scratch.

Exit code 0 all is well, 1 something is not, 77 cuobjdump or the library is missing, or no kernel of that name is in it.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from resources import SKIP, find_cuobjdump, run

# (product, part of a kernel's name, instructions that its object must hold)
WANTED = [("product, bf16", "sm90_xmma_gemm_bf16bf16_bf16f32_f32", ["HGMMA"]),
          ("product with GELU's gradient, bf16", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize64x256x64_warpgroupsize1x1x1_aux_bf16_dgelu",
           ["HGMMA", "MUFU.TANH"])]
ARCH = ".sm_90a."  # in the names of the objects: Hopper with its own instructions


def find_library(name):
    cached = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout if shutil.which("ldconfig") else ""
    found = re.search(rf"^\s*{re.escape(name)} .*=> (\S+)", cached, re.MULTILINE)
    places = [found.group(1)] if found else []
    places += [f"{d}/{name}" for d in ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu")]
    return next((pathlib.Path(p) for p in places if pathlib.Path(p).exists()), None)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--library", type=pathlib.Path, default=find_library("libcublasLt.so.13"))
    args = ap.parse_args()
    cuobjdump = find_cuobjdump()
    if not cuobjdump or not args.library or not args.library.exists():
        print("SKIPPED: cuobjdump (in the CUDA toolkit, or the packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm)" if not cuobjdump else f"SKIPPED: no {args.library}")
        return SKIP
    failures, missing = [], []
    with tempfile.TemporaryDirectory() as scratch:
        run([cuobjdump, "-xelf", ARCH, args.library.resolve()], cwd=scratch)
        objects = {f: f.read_bytes() for f in pathlib.Path(scratch).iterdir()}
        print(f"{args.library.name}: {len(objects)} objects for sm_90a")
        for what, name, instructions in WANTED:
            holding = [f for f, data in objects.items() if name.encode() in data]
            if not holding:
                missing.append(name)
                continue
            smallest = min(holding, key=lambda f: f.stat().st_size)
            found = collections.Counter(re.findall(r"\b(HGMMA|HMMA|MUFU\.TANH|MUFU\.EX2)\b", run([cuobjdump, "--dump-sass", smallest])))
            print(f"{what}: {len(holding)} objects have it; {smallest.name}: {', '.join(f'{n} {i}' for i, n in found.items()) or 'none'}")
            failures += [f"{what}: no {i} in {smallest.name}" for i in instructions if not found[i]]
    for f in failures:
        print("FAILED:", f)
    if missing and not failures:
        print(f"SKIPPED: this version has no kernel called {', '.join(missing)}")
        return SKIP
    print("libraries:", "FAILED" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
