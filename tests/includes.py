"""Includes go down: bench, reports, perfmodel and model are floors, and inside a floor the folders named below are ordered.
Each module has its namespace; what lies at the bottom or is another program's header is plain `isobar`.

    python3 tests/includes.py        # prints each include that goes up, each namespace of another module; exit 1 then
"""

import re
import subprocess
import sys

# Lowest first; of several folders that hold a file the longest name counts. Folders of one line are equals: they must
# not include each other.
FLOORS = [
    ["model/base"],
    ["model/records", "model/plan"],
    ["model"],
    ["perfmodel/machine"],
    ["perfmodel/step"],
    ["perfmodel/layouts"],
    ["perfmodel/fitting"],
    ["perfmodel/score"],
    ["perfmodel/ask"],
    ["perfmodel/ask/choose"],
    ["perfmodel/referee"],
    ["reports"],
    ["bench"],
    ["bench/cli"],
]
# Modules that are not named as their folder
NAMESPACES = {"model/base": "", "model/backend": "", "model/inference/library": "", "model/inference/examples": "",
              "model/trace/cuda": "cuda",
              "perfmodel": "perf", "reports": "report", "bench/import": "foreign"}
HEIGHT = {folder: height for height, folders in enumerate(FLOORS) for folder in folders}


def folder_of(path):
    """The longest folder of FLOORS that holds the file; "" for tests and others."""
    return max((f for f in HEIGHT if path.startswith(f + "/")), key=len, default="")


def goes_up(source, header):
    own, other = folder_of(source), folder_of(header)
    if not own or not other or own == other:
        return False
    return HEIGHT[other] >= HEIGHT[own]


def namespace_of(path):
    """The namespace of a file's module, with `::` before it."""
    named = max((f for f in NAMESPACES if path.startswith(f + "/")), key=len, default="")
    name = NAMESPACES[named] if named else path.split("/")[1]
    return "::" + name if name else ""


def of_another_module(path, line):
    """Whether the line opens a namespace that is not the file's module's, nor one inside it."""
    m = re.match(r"namespace isobar([\w:]*) \{", line)
    own = namespace_of(path)
    return m and folder_of(path) and m[1] != own and not m[1].startswith(own + "::")


tracked = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True, check=True)
read = found = 0
for path in tracked.stdout.split():
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if of_another_module(path, line):
            found += 1
            print(f"{path}:{number}: opens another namespace than isobar{namespace_of(path)}")
        if not (m := re.match(r'\s*#\s*include "([^"]+)"', line)):
            continue
        read += 1
        if goes_up(path, m[1]):
            found += 1
            print(f"{path}:{number}: includes {m[1]}, which is above it or beside it")
if not read:
    sys.exit("no include was found: git ls-files names no source here")
sys.exit(1 if found else 0)
