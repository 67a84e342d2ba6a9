"""clang-tidy over every source file of the project but the tests, in parallel, remembering what was clean.

    python3 tests/tidy.py build-tidy     # prints findings on stderr; last line on stdout: PASSED FAILED [failed files]

A file is clean until something that clang-tidy sees changes: the key of the memory (~/.cache/isobar-tidy) is the
preprocessed source with its comments, the checks, and clang-tidy's version.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "isobar-tidy"


def key_of(entry, salt):
    """Hash of all that decides the verdict on one entry of compile_commands.json."""
    args, keep = shlex.split(entry["command"]), []
    skip = False
    for a in args:
        if skip or a in ("-c", "-o"):
            skip = a == "-o"
            continue
        keep.append(a)
    text = subprocess.run(keep + ["-E", "-P", "-C"], cwd=entry["directory"], capture_output=True, check=True).stdout
    return hashlib.sha256(salt + entry["file"][len(str(ROOT)):].encode() + text).hexdigest()


def brief(output):
    """The findings with their source line, without the analyser's path notes."""
    lines, keep, kept = output.splitlines(), False, []
    for line in lines:
        if re.search(r":\d+:\d+: (error|warning|note):", line):
            keep = ": note:" not in line
        if keep:
            kept.append(line)
    return "\n".join(kept)


def check(entry, build, salt):
    """Returns (file, findings); no findings when clean."""
    name = os.path.relpath(entry["file"], ROOT)
    stamp = CACHE / key_of(entry, salt)
    if stamp.exists():
        return name, ""
    run = subprocess.run(["clang-tidy", "-p", build, "--quiet", entry["file"]], cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0:
        stamp.touch()
        return name, ""
    return name, brief(run.stdout) or run.stdout + run.stderr


def main():
    build = sys.argv[1]
    CACHE.mkdir(parents=True, exist_ok=True)
    salt = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    salt += (ROOT / ".clang-tidy").read_bytes()
    # Without tests, which would double the time and are covered by compiler warnings and sanitizers. Without
    # CUDA sources, because clang 14 cannot parse the headers of CUDA 13.
    entries = {e["file"]: e for e in json.loads((ROOT / build / "compile_commands.json").read_text())
               if not e["file"].startswith(str(ROOT / "tests")) and not e["file"].endswith(".cu")}
    started, failed = time.time(), []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(check, e, build, salt) for e in entries.values()]
        for i, run in enumerate(concurrent.futures.as_completed(runs), 1):
            name, findings = run.result()
            if findings:
                failed.append(name)
                print(findings, file=sys.stderr)
            if findings or i % 10 == 0 or i == len(runs):
                print(f"   clang-tidy [{i}/{len(runs)}, {time.time() - started:.0f} s] {name}"
                      f"{': FAILED' if findings else ''}", file=sys.stderr, flush=True)
    print(len(entries) - len(failed), len(failed), *(f"clang-tidy/{name}" for name in sorted(failed)))


if __name__ == "__main__":
    main()
