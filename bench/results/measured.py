#!/usr/bin/env python3
"""What was measured by hand, as a Markdown table: bench/results/measured.jsonl, one JSON object a line.

    python3 bench/results/measured.py                        # all measurements
    python3 bench/results/measured.py H100                   # those whose text has this word, in any case
    python3 bench/results/measured.py vit-small pytorch      # … and this one, too

Each line has `what`, `value`, `unit` and `commit`, the commit that recorded the value; `machine`, `date` and `command`
where they are known. A newer value of a measurement replaces its line: git keeps the old one.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("measured.jsonl")
NEEDED = {"what": str, "commit": str, "value": (int, float), "unit": str}
KNOWN = {"machine": str, "date": str, "command": str}


def measurements(path=FILE):
    """The lines of a file; raises ValueError that names the line where one is not a measurement."""
    rows, seen = [], {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as e:
            raise ValueError(f"{path.name}:{number}: {e}") from None
        for key, kind in NEEDED.items():
            if not isinstance(row.get(key), kind):
                raise ValueError(f"{path.name}:{number}: '{key}' is missing or of another type")
        for key, value in row.items():
            if key not in NEEDED and not isinstance(value, KNOWN.get(key, ())):
                raise ValueError(f"{path.name}:{number}: '{key}' is unknown or of another type")
        same = (row["what"], row.get("machine"))
        if same in seen:
            raise ValueError(f"{path.name}:{number}: measures what line {seen[same]} does: replace that one")
        seen[same] = number
        rows.append(row)
    return rows


def table(rows):
    columns = ["what", "value", "machine", "commit", "date", "command"]
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        shown = row | {"value": f"{row['value']:g} {row['unit']}".strip(), "command": f"`{row['command']}`" if "command" in row else ""}
        yield "| " + " | ".join(shown.get(c, "").replace("|", "\\|") for c in columns) + " |"


if __name__ == "__main__":
    words = [w.lower() for w in sys.argv[1:]]
    chosen = [r for r in measurements() if all(w in json.dumps(r, ensure_ascii=False).lower() for w in words)]
    print("\n".join(table(chosen)) if chosen else f"no measurement has {' and '.join(sys.argv[1:])}")
    sys.exit(0 if chosen else 1)
