"""The Python with PyTorch and packages of nets, and the nets of a table of tests/fixtures/traced that it has."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = pathlib.Path(os.environ.get("ISOBAR_PACKAGES_PYTHON", ROOT / ".venv-packages" / "bin" / "python"))
TRACED = ROOT / "tests" / "fixtures" / "traced"


def nets_there(table, least=1):
    """Nets whose packages PYTHON has, by name; ends the test as skipped if they are fewer than `least`."""
    listed = subprocess.run([PYTHON, "-c", f"import sys, json, importlib.util; sys.path.insert(0, {str(TRACED)!r}); import "
                             f"{table} as p; print(json.dumps({{n: t._asdict() for n, t in p.NETS.items() if "
                             "importlib.util.find_spec(t.package)}))"], capture_output=True, text=True) if PYTHON.exists() else None
    nets = json.loads(listed.stdout) if listed and listed.returncode == 0 else {}
    if len(nets) < least:
        print(f"SKIPPED: {PYTHON} has no PyTorch with these packages")
        sys.exit(0)
    return nets
