"""Estimates the cycles of attention on AMX tiles from its object code, on a machine without AMX.

    cmake --build build --target attention_benchmark
    python3 bench/micro/attention/estimate.py build/CMakeFiles/isobar_model_backend_cpu.dir/model/backend/cpu/isa/isa_amx.cpp.o
    … estimate.py --serial OBJECT        # assumes that tiles and vector code do not overlap
    … estimate.py --mca llvm-mca-19 --cpu skylake-avx512 OBJECT   # whose model has the second FMA port of server parts

Vectors: llvm-mca's cycles of the inner loops that take exponentials (found in objdump's listing by vscalefps), for each
vector of 16 scores. Tiles: 16 cycles a multiplication; loads (8) and stores (16) go beside it. A block of 32 x 32 x n
overlaps with a share of the vector work, so the longer of the two counts; other blocks count by their tiles alone. The
result is an ESTIMATE without caches, loop overhead and clock changes: compare it with the same estimate of code whose
rate was measured.
"""

import argparse
import re
import subprocess
import sys

KEYS, QUERIES, PATCH = 96, 64, 32  # attention_layout.h, attention_tiles.h


def inner_loops(listing):
    """(function, its instructions from a backward jump's target to the jump) without jumps inside"""
    name, code = "", []
    for line in listing.splitlines() + ["0 <end>:"]:
        if head := re.match(r"^[0-9a-f]+ <(.*)>:", line):
            place = {address: i for i, (address, _) in enumerate(code)}
            for i, (address, text) in enumerate(code):
                jump = re.match(r"j\w+\s+([0-9a-f]+)", text)
                begin = place.get(int(jump[1], 16)) if jump else None
                if begin is not None and begin <= i:
                    body = [t for _, t in code[begin:i]]
                    if not any(re.match(r"j|call", t) for t in body):
                        yield name, body
            name, code = head[1], []
        elif parts := re.match(r"^\s*([0-9a-f]+):\s+(.*)$", line):
            code.append((int(parts[1], 16), re.sub(r"\s*(#.*|<[^>]*>)", "", parts[2]).strip()))


def cycles(args, body):
    source = "\n".join(t for t in body if not t.startswith("nop"))
    answer = subprocess.run([args.mca, "-mtriple=x86_64", f"-mcpu={args.cpu}", "-iterations=200"], input=source,
                            capture_output=True, text=True)
    found = re.search(r"Total Cycles:\s+(\d+)", answer.stdout)
    if not found:
        sys.exit(f"{args.mca} did not take the loop: {answer.stderr[:300]}")
    return int(found[1]) / 200


def vector_cycles(args):
    """Cycles for a vector of 16 scores, forward and backward, of the loops that take the most vectors at once"""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", args.object], check=True, capture_output=True,
                             text=True).stdout
    best = {}
    for name, body in inner_loops(listing):
        vectors = sum("vscalefps" in t for t in body)
        which = "backward" if "gradients" in name else "forward" if re.search("exponentials|lazy_softmax", name) else None
        # of patches (32 queries) the new code takes 2 vectors of 2 keys at a time, blocks before took 4
        if which is None or vectors == 0 or vectors > (8 if args.serial else 4):
            continue
        arithmetic = sum("zmm" in t and not t.startswith("vmov") for t in body)
        found = vectors, cycles(args, body) / vectors, arithmetic / vectors
        best[which] = max(best.get(which, found), found)  # the dearer one where several take as many
    for which, (vectors, cost, arithmetic) in sorted(best.items()):
        print(f"{which}: {arithmetic:.1f} vector instructions and {cost:.2f} cycles a vector ({vectors} a turn)")
    return best["forward"][1], best["backward"][1]


def tiles(n):
    return -(-n // 16)


def forward(d, vector, serial):
    """(multiplications of tiles, cycles) of a block of 96 keys x 64 queries"""
    scores = 4 * -(-d // 32)  # of a patch
    rows = [min(2, tiles(d) - m) for m in range(0, tiles(d), 2)]
    outputs = [r * 2 * KEYS // 32 for r in rows]  # of half the queries
    count = 6 * scores + 2 * sum(outputs)
    if serial:
        return count, 16 * count + 384 * vector
    half, total = 32 * vector, 0.0
    for c in range(3):
        share = outputs[len(outputs) * c // 3:len(outputs) * (c + 1) // 3]
        total += max(16 * scores, half) + 16 * sum(share[:-1]) + max(16 * share[-1] if share else 0, half)
    return count, 2 * total


def backward(d, vector, serial):
    scores = 4 * -(-d // 32)
    rows = [min(2, tiles(d) - m) for m in range(0, tiles(d), 2)]
    outputs = [2 * r * 2 for _ in range(6) for r in rows] + [r * 2 * 3 for _ in range(2) for r in rows]
    count = 12 * scores + sum(outputs)
    if serial:
        return count, 16 * count + 384 * vector
    quarter, total = 16 * vector, 0.0
    for c in range(6):
        share = outputs[len(outputs) * c // 6:len(outputs) * (c + 1) // 6]
        total += 2 * max(16 * scores, quarter)
        for i in range(2):
            total += max(16 * share[i] if i < len(share) else 0, quarter)
        total += 16 * sum(share[2:])
    return count, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("object")
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--mca", default="llvm-mca")
    parser.add_argument("--cpu", default="sapphirerapids")
    args = parser.parse_args()
    costs = vector_cycles(args)
    print("ESTIMATE, of a block of 96 keys x 64 queries\n| d | pass | tile multiplications | cycles | FLOP a cycle |\n"
          "|---|---|---|---|---|")
    for d in (32, 48, 64, 128, 192):
        for name, work, flops, cost in (("forward", forward, 4, costs[0]), ("backward", backward, 10, costs[1])):
            count, total = work(d, cost, args.serial)
            print(f"| {d} | {name} | {count} | {total:.0f} | {flops * KEYS * QUERIES * d / total:.0f} |")


if __name__ == "__main__":
    main()
