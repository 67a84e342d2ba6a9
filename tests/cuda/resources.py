"""What the CUDA compiler made of the kernels: no spills, wide memory accesses, and where the matrix units are used.

    resources.py --library build/libisobar_model_backend_cuda_kernels.a     # with cuobjdump: what is really linked
    resources.py --sources model/backend/cuda/kernels/{,attention/}*.cu    # without: nvcc compiles them again (slower)

Checked of every kernel, for every architecture that was compiled for: no stack frame and no local memory, hence no
spill. With cuobjdump, also of the code for Hopper: kernels that stream through memory load and store 16 bytes at a
time, and matrix instructions (HMMA) are in our attention kernels for tensor cores (attention_mma*.cu), in each of them
and in no others: all products, and attention in 16 bits where cuDNN takes it, are cuBLASLt's and cuDNN's. What those hold
is libraries.py's to look at; the scalar attention kernels are for strict f32, which has no matrix instruction.

--hopper: the library of the kernels for Hopper alone. Each attention kernel there must hold warpgroup products (HGMMA),
and fewer fences and waits for them (WARPGROUP) than products: ptxas ends each product before the next, with a fence and
a wait of its own, where registers do not suffice or sums are read too early, which is right and slow.

Exit code 0 all is well, 1 something is not, 77 neither cuobjdump nor nvcc is here.
"""

import argparse
import collections
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
# Kernels with 16-byte packs (…, 8> for 16-bit types) or rows in registers stream through memory.
STREAMING = re.compile(r"(residual_norm|forward_in_registers|backward_in_registers|gelu|adam)", re.IGNORECASE)
MATRIX = re.compile(r"\bmma_\w+_kernel|\bgrouped_kernel<[^>]*true>")
HOPPER = ("sm_90a", "sm_90")

Kernel = collections.namedtuple("Kernel", "name arch registers stack local spills")


def run(command, **more):
    path = f"{os.environ['PATH']}:{pathlib.Path(command[0]).parent}"  # cuobjdump looks for nvdisasm beside
                                                                      # it
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=os.environ | {"PATH": path}, **more)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def find_cuobjdump():
    """In $ISOBAR_CUOBJDUMP, the path, the toolkit, what bench/setup.sh brings, or the triton package of this Python."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    candidates = [os.environ.get("ISOBAR_CUOBJDUMP"), shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump",
                  *map(str, root.glob(".venv-cudnn/nvidia/cu*/bin/cuobjdump"))]
    spec = importlib.util.find_spec("triton")
    if spec and spec.origin:
        candidates.append(str(pathlib.Path(spec.origin).parent / "backends/nvidia/bin/cuobjdump"))
    return next((c for c in candidates if c and os.access(c, os.X_OK)), None)


def demangle(names):
    """Readable names without parameters, by mangled name."""
    if not names or not shutil.which("c++filt"):
        return {n: n for n in names}
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(names, (re.sub(r"\((?!anonymous).*", "", o.replace("(anonymous namespace)::", "")) for o in out)))


def kernels_of_library(cuobjdump, library):
    kernels, arch, name = [], "?", None
    for line in run([cuobjdump, "--dump-resource-usage", library]).splitlines():
        if m := re.match(r"\s*arch = (\S+)", line):
            arch = m.group(1)
        elif m := re.match(r"\s*Function (.+):$", line):
            name = m.group(1)
        elif name and (m := re.search(r"REG:(\d+) STACK:(\d+) .*LOCAL:(\d+)", line)):
            kernels.append(Kernel(name, arch, *map(int, m.groups()), 0))
            name = None
    return kernels


def kernels_of_sources(nvcc, sources, include, arch):
    """Compiles for one architecture and reads ptxas's report."""
    def one(source):
        with tempfile.TemporaryDirectory() as scratch:
            text = run([nvcc, "-std=c++20", "-O3", f"-I{include}", f"-arch={arch}", "-cubin", "-Xptxas", "-v", source,
                        "-o", pathlib.Path(scratch) / "out.cubin"])
        found, name, stack, spills = [], None, 0, 0
        for line in text.splitlines():
            if m := re.search(r"Compiling entry function '(.+)' for '(\S+)'", line):
                name = m.group(1)
            elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
                stack, spills = int(m.group(1)), int(m.group(2)) + int(m.group(3))
            elif name and (m := re.search(r"Used (\d+) registers", line)):
                found.append(Kernel(name, arch, int(m.group(1)), stack, 0, spills))
                name = None
        return found
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [k for found in pool.map(one, sources) for k in found]


def instructions_of_library(cuobjdump, library, arch):
    """Counts of the instructions that matter, by kernel."""
    counts, current = {}, None
    wanted = re.compile(r"Function : (\S+)|\b(LDG|STG|LDL|STL|HGMMA|HMMA|QGMMA|UTMALDG|WARPGROUP)\b([.A-Z0-9_]*)", re.ASCII)
    for m in wanted.finditer(run([cuobjdump, "--dump-sass", "--gpu-architecture", arch, library])):
        if m[1]:
            current = counts.setdefault(m[1], collections.Counter())
        elif current is not None:
            current[m[2] + (".128" if ".128" in m[3] else "")] += 1
    return counts


def failures_of_hopper(cuobjdump, library):
    kernels = kernels_of_library(cuobjdump, library)
    names = demangle(sorted({k.name for k in kernels}))
    failures = [f"{names[k.name]}: {k.stack} bytes of stack, {k.local} of local memory" for k in kernels if k.stack or k.local]
    counts = instructions_of_library(cuobjdump, library, HOPPER[0])
    failures += [f"{names.get(n, n)} uses local memory (LDL, STL)" for n, c in counts.items() if c["LDL"] or c["STL"]]
    attention = [n for n in counts if "hopper_forward_kernel" in n or "hopper_backward_kernel" in n]
    for n in attention:
        products, waits = counts[n]["HGMMA"], counts[n]["WARPGROUP"]
        if not products or waits >= products:
            failures.append(f"{names[n]}: {products} products (HGMMA), {waits} fences and waits for them (WARPGROUP)")
    print(f"{library.name}: {len(attention)} attention kernels, {sum(counts[n]['HGMMA'] for n in attention)} products")
    return failures + ([] if attention else [f"no attention kernel was recognised in {library.name}"])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--library", type=pathlib.Path)
    ap.add_argument("--hopper", type=pathlib.Path, help="library of the kernels for Hopper alone")
    ap.add_argument("--sources", type=pathlib.Path, nargs="*", default=[])
    ap.add_argument("--include", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    ap.add_argument("--nvcc", default=shutil.which("nvcc"))
    ap.add_argument("--arch", default="sm_90a", help="that --sources are compiled for")
    args = ap.parse_args()

    cuobjdump = find_cuobjdump() if args.library else None
    if cuobjdump:
        kernels, source = kernels_of_library(cuobjdump, args.library), f"cuobjdump of {args.library.name}"
    elif args.nvcc and args.sources:
        kernels, source = kernels_of_sources(args.nvcc, args.sources, args.include, args.arch), "ptxas's report"
    else:
        print("SKIPPED: neither cuobjdump (in the CUDA toolkit, or in the package triton) nor nvcc with --sources")
        return SKIP
    failures = []
    names = demangle(sorted({k.name for k in kernels}))
    by_arch = collections.Counter(k.arch for k in kernels)
    print(f"{source}: " + ", ".join(f"{n} kernels for {a}" for a, n in sorted(by_arch.items())))
    if not kernels:
        failures.append("no kernel was found")
    if len(set(by_arch.values())) > 1:
        failures.append("not every kernel is there for every architecture")
    for k in kernels:
        if k.stack or k.local or k.spills:
            failures.append(f"{names[k.name]} for {k.arch}: {k.stack} bytes of stack, {k.local} of local memory, "
                            f"{k.spills} of spills, {k.registers} registers")
    most = max(kernels, key=lambda k: k.registers, default=None)
    if most:
        print(f"most registers: {most.registers} in {names[most.name]} for {most.arch}")

    arch = next((a for a in HOPPER if a in by_arch), None)
    if cuobjdump and arch:
        counts = instructions_of_library(cuobjdump, args.library, arch)
        names |= demangle(sorted(set(counts) - set(names)))
        streaming = [n for n in counts if STREAMING.search(names[n])]
        wide = [n for n in streaming if counts[n]["LDG.128"] and counts[n]["STG.128"]]
        print(f"{arch}: {len(wide)} of {len(streaming)} streaming kernels load and store 16 bytes at a time")
        for pattern in sorted({STREAMING.search(names[n]).group(1).lower() for n in streaming}):
            if not any(pattern in names[n].lower() for n in wide):
                failures.append(f"no {pattern} kernel for {arch} has 16-byte loads and stores")
        if not streaming:
            failures.append("no streaming kernel was recognised: mend STREAMING in this file")
        local = [names[n] for n, c in counts.items() if c["LDL"] or c["STL"]]
        failures += [f"{n} for {arch} uses local memory (LDL, STL)" for n in local]
        matrix = {n: sum(c[i] for i in ("HGMMA", "QGMMA", "HMMA", "UTMALDG")) for n, c in counts.items()}
        meant = [n for n in counts if MATRIX.search(names[n])]
        print(f"{arch}: {sum(matrix[n] for n in meant)} matrix instructions in our {len(meant)} kernels for tensor cores")
        if not meant:
            failures.append("no kernel for tensor cores was recognised: mend MATRIX in this file")
        failures += [f"{names[n]} for {arch} holds no matrix instruction" for n in meant if not matrix[n]]
        failures += [f"{names[n]} for {arch} holds {matrix[n]} matrix instructions: say here what is meant"
                     for n in counts if matrix[n] and n not in meant]
    else:
        print("instructions not looked at: no cuobjdump" if not cuobjdump else "no code for Hopper in this build")
    if cuobjdump and args.hopper:
        failures += failures_of_hopper(cuobjdump, args.hopper)
    for f in failures:
        print("FAILED:", f)
    print("resources:", "FAILED" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
