#!/usr/bin/env python3
"""What the linker wrote into programs and libraries: python3 binaries.py --build build, or python3 binaries.py FOLDER

Libraries are looked for in absolute folders and beside the program ($ORIGIN), never in an empty or relative part of a
RUNPATH, which is the working directory. Of a build folder, what `cmake --install` makes of it is judged, too: that names
no folder of the build.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile


def binaries_in(folder):
    """Programs and shared libraries; no objects, and nothing of CMake's own."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_file() or {"CMakeFiles", "_deps", "bundle"} & set(file.relative_to(folder).parts):
            continue
        with open(file, "rb") as opened:
            head = opened.read(18)
        if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # ET_EXEC, ET_DYN
            yield file


def faults_of(file, without=None):
    dynamic = subprocess.run(["readelf", "-dW", file], capture_output=True, text=True, check=True).stdout
    for kind, path in re.findall(r"\((RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        for part in path.split(":"):
            if not re.match(r"/|\$ORIGIN(/|$)|\$\{ORIGIN\}(/|$)", part):
                yield f"{kind} has the part '{part}', by which libraries are taken from the working directory: {path}"
            if without and pathlib.Path(part).is_relative_to(without):
                yield f"{kind} names a folder of the build: {path}"
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if "/" in name and not name.startswith("/"):
            yield f"needs {name}, which is looked for from the working directory"


def judge(folder, without=None):
    files = list(binaries_in(folder))
    assert files, f"{folder} has no binary"
    faults = [f"{file}: {fault}" for file in files for fault in faults_of(file, without)]
    assert not faults, "\n".join(faults)
    print(f"{folder}: {len(files)} binaries")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="*", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    for folder in args.folder:
        judge(folder)
    if args.build:
        judge(args.build)
        with tempfile.TemporaryDirectory() as prefix:
            for component in ("command", "inference"):
                subprocess.run(["cmake", "--install", args.build, "--prefix", prefix, "--component", component], check=True,
                               stdout=subprocess.DEVNULL)
            judge(pathlib.Path(prefix), without=args.build.resolve())


main()
