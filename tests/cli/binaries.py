#!/usr/bin/env python3
"""What the linker wrote into programs and libraries: python3 binaries.py --build build, or python3 binaries.py FOLDER

Libraries are looked for in absolute folders and beside the program ($ORIGIN), never in an empty or relative part of a
RUNPATH, which is the working directory. Nothing that was relocated stays writable (full RELRO), no stack is executable; ours
check their buffers (the stack protector, _FORTIFY_SOURCE, which sanitizers replace). Of a build folder, what `cmake --install`
makes of it is judged, too: that names no folder of the build.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

CHECKED = ("isobar", "libisobar.so")


def binaries_in(folder):
    """Programs and shared libraries; no objects, and nothing of CMake's own."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_file() or {"CMakeFiles", "_deps", "bundle"} & set(file.relative_to(folder).parts):
            continue
        with open(file, "rb") as opened:
            head = opened.read(18)
        if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # ET_EXEC, ET_DYN
            yield file


def readelf(option, file):
    return subprocess.run(["readelf", "--wide", option, file], capture_output=True, text=True, check=True).stdout


def path_faults(file, without):
    dynamic = readelf("--dynamic", file)
    for kind, path in re.findall(r"\((RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        for part in path.split(":"):
            if not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", part):
                yield f"{kind} has the part '{part}', by which libraries are taken from the working directory: {path}"
            if without and pathlib.Path(part).is_relative_to(without):
                yield f"{kind} names a folder of the build: {path}"
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if "/" in name and not name.startswith("/"):
            yield f"needs {name}, which is looked for from the working directory"


def hardening_faults(file, checks):
    segments = readelf("--segments", file)
    if "GNU_RELRO" not in segments or not re.search(r"BIND_NOW|FLAGS_1\).*\bNOW\b", readelf("--dynamic", file)):
        yield "is not linked with -z relro -z now"
    if not (stack := re.search(r"GNU_STACK.*", segments)) or re.search(r"\bRWE\b", stack[0]):
        yield "has an executable stack"
    if file.name.startswith(CHECKED) and checks:
        symbols = readelf("--dyn-syms", file)
        for symbol in ("__stack_chk_fail", "__snprintf_chk"):
            if symbol not in symbols:
                yield f"has no {symbol}"


def judge(folder, without=None, ours=True, checks=True):
    """Of what others built, as a bundle's libraries, only the paths."""
    files = list(binaries_in(folder))
    assert files, f"{folder} has no binary"
    faults = [f"{file}: {fault}" for file in files for fault in path_faults(file, without)]
    if ours:
        faults += [f"{file}: {fault}" for file in files for fault in hardening_faults(file, checks)]
    assert not faults, "\n".join(faults)
    print(f"{folder}: {len(files)} binaries")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="*", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    for folder in args.folder:
        judge(folder, ours=False)
    if args.build:
        checks = "ISOBAR_SANITIZE:STRING=\n" in (args.build / "CMakeCache.txt").read_text()
        judge(args.build, checks=checks)
        with tempfile.TemporaryDirectory() as prefix:
            for component in ("command", "inference"):
                subprocess.run(["cmake", "--install", args.build, "--prefix", prefix, "--component", component], check=True,
                               stdout=subprocess.DEVNULL)
            judge(pathlib.Path(prefix), without=args.build.resolve(), checks=checks)


main()
