"""A type's name is taken once: two different types of one name and namespace are undefined behaviour as soon as one
program holds both (C++ [basic.def.odr]), and neither compiler nor linker says so.

    python3 tests/one_name.py        # prints what is taken twice; exit 1 then
"""

import collections
import re
import subprocess
import sys


def types_of(path):
    """Names with their namespaces of the types defined at the outer level, but those of unnamed namespaces."""
    spaces = []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if m := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{", line):
            spaces.append(m[1])
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif (m := re.match(r"(?:struct|class|enum class|enum|union) (\w+)(?!\w|::)[^;=()]*\{", line)) and "" not in spaces:
            yield "::".join(spaces + [m[1]]), f"{path}:{number}"


tracked = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True, check=True)
places = collections.defaultdict(list)
for path in tracked.stdout.split():
    for name, place in types_of(path):
        places[name].append(place)
taken_twice = {name: at for name, at in places.items() if len(at) > 1}
for name, at in sorted(taken_twice.items()):
    print(f"{name} is defined in {' and '.join(at)}: rename one")
if not places:
    sys.exit("no type was found: git ls-files names no source here")
sys.exit(1 if taken_twice else 0)
