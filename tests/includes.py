"""Includes go down: bench, reports, perfmodel and model are floors, and inside a floor the folders named below are ordered.

    python3 tests/includes.py        # prints each include that goes up; exit 1 then
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
HEIGHT = {folder: height for height, folders in enumerate(FLOORS) for folder in folders}


def folder_of(path):
    """The longest folder of FLOORS that holds the file; "" for tests and others."""
    return max((f for f in HEIGHT if path.startswith(f + "/")), key=len, default="")


def goes_up(source, header):
    own, other = folder_of(source), folder_of(header)
    if not own or not other or own == other:
        return False
    return HEIGHT[other] >= HEIGHT[own]


tracked = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True, check=True)
read = found = 0
for path in tracked.stdout.split():
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if not (m := re.match(r'\s*#\s*include "([^"]+)"', line)):
            continue
        read += 1
        if goes_up(path, m[1]):
            found += 1
            print(f"{path}:{number}: includes {m[1]}, which is above it or beside it")
if not read:
    sys.exit("no include was found: git ls-files names no source here")
sys.exit(1 if found else 0)
