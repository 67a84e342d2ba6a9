"""The parts of tests/gpu.sh: each within its time, one table at the end, everything in one JSON file.

A part that cannot run says why and the next one runs. Everything is written as it comes: lines and figures to the JSON, the
output of every command and the records of every run to the folder beside it. With --rehearse every part runs with tiny nets
on emulated GPUs (or, where the emulator is not built, on the CPU), which tests this script and measures nothing.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import parts
from session import Session, Skip, Trouble, environment, torch_version, unresolved

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NO_DEVICE = 77
PATIENCE = 10  # factor on all limits of a rehearsal, whose GPUs are emulated


def find_device():
    """What nvidia-smi says of the first GPU, or why there is none."""
    fields = ("name", "driver_version", "memory.total", "compute_cap", "clocks.sm", "clocks.max.sm", "temperature.gpu",
              "power.limit")
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return None, "there is no nvidia-smi, so no NVIDIA driver"
    except (OSError, subprocess.TimeoutExpired) as e:
        return None, f"nvidia-smi: {e}"
    if done.returncode != 0 or not done.stdout.strip():
        return None, f"nvidia-smi: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
    return dict(zip(fields, (v.strip() for v in done.stdout.splitlines()[0].split(",")))), ""


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def table(rows):
    width = [max(len(str(r[i])) for r in rows) for i in (0, 1)]
    return "\n".join(f"{r[0]:<{width[0]}}  {r[1]:<{width[1]}}  {r[2]}".rstrip() for r in rows)


def write(file, result):
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    temporary.replace(file)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("parts", nargs="*", help=f"of {', '.join(parts.ALL)}; all by default")
    ap.add_argument("--build", type=pathlib.Path)
    ap.add_argument("--bundle", type=pathlib.Path, help="unpacked")
    ap.add_argument("--minutes", type=float, default=9.5)
    ap.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT") or ROOT / "bench" / "results")
    ap.add_argument("--rehearse", action="store_true")
    ap.add_argument("--dry-run", action="store_true")
    args = ap.parse_args()
    chosen = args.parts or list(parts.ALL)
    if unknown := [p for p in chosen if p not in parts.ALL]:
        ap.error(f"no part is called {unknown[0]}")

    device, why = ({"name": "rehearsal"}, "") if args.rehearse else find_device()
    binaries = (args.bundle / "bin") if args.bundle else args.build
    env, libraries, missing = environment(args.bundle)
    if args.dry_run:
        print(f"device: {device['name'] if device else 'none (' + why + ')'}")
        lacking = 0
        for program in ("isobar", "gpu_ceiling", "test_cuda", "test_nccl"):
            lacks = unresolved(binaries / program, env) if (binaries / program).exists() else ["the program itself"]
            lacking += bool(lacks)
            print(f"{program}: {binaries / program}{', LACKS ' + ', '.join(lacks) if lacks else ''}")
        for name, place in libraries.items():
            print(f"{name}: {place or 'not found; needed by ' + missing[name]}")
        print("PyTorch:", torch_version() or "none: no peer to time against")
        for name in chosen:
            part = parts.ALL[name]
            print(f"part {name}: {part.expected} s expected on an H100 ({part.seen}), {part.seconds} s at most: {part.__doc__.splitlines()[0]}")
        print(f"expected {sum(parts.ALL[n].expected for n in chosen)} s in all; stops after {args.minutes:g} minutes")
        return 1 if lacking else 0
    if device is None:
        print(f"no device: {why}; tests/gpu.sh runs nothing here")
        return NO_DEVICE

    started = time.monotonic()
    result = {"schema": 2, "kind": "gpu", "time_utc": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
              "rehearsal": args.rehearse, "device": device, "libraries": {n: bool(p) for n, p in libraries.items()},
              "parts": {}, "table": []}
    failed = 0
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / f"gpu-{slug(device['name'])}.json"
    logs = file.with_suffix("")
    shutil.rmtree(logs, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="isobar-gpu-") as scratch:
        patience = PATIENCE if args.rehearse else 1
        session = Session(binaries=binaries.resolve(), env=env, scratch=pathlib.Path(scratch), rehearse=args.rehearse,
                          missing=missing, deadline=started + patience * args.minutes * 60, out=args.out, logs=logs, patience=patience)
        for name in chosen:
            part, left = parts.ALL[name], session.left()
            begun = time.monotonic()
            print(f"== {name} ({left:.0f} s left, {part.expected} s expected on an H100)", flush=True)
            session.rows, session.bad, found = [], [], {}
            finished = list(result["table"])

            def save(state="running", name=name, begun=begun, found=found, finished=finished):
                seconds = time.monotonic() - begun
                result["parts"][name] = {"state": state, "seconds": round(seconds, 1), "failed": session.bad} | found
                result["table"] = finished + session.rows
                write(file, result | {"provenance": session.provenance, "seconds": round(time.monotonic() - started, 1)})

            session.save = save
            try:
                if left < part.least:
                    raise Skip(f"{left:.0f} s were left of {args.minutes:g} minutes, it needs {part.least}")
                session.part_ends = begun + min(patience * part.seconds, left)
                part(session, found)
                state = "failed" if session.bad else "ok"
            except Skip as e:
                found["why"] = str(e)
                session.row(name, "skipped", str(e))
                state = "skipped"
            except Trouble as e:
                found["why"] = str(e)
                session.row(name, "FAILED", str(e).splitlines()[0])
                state = "failed"
            failed += state == "failed"
            save(state)
    result |= {"provenance": session.provenance, "seconds": round(time.monotonic() - started, 1)}
    head = [(device["name"], f"{result['seconds']:.0f} s", f"commit {session.provenance.get('commit', '?')}")]
    print("\n" + table(head + result["table"]))
    print("\nseconds: " + ", ".join(f"{n} {p['seconds']:.0f}" for n, p in result["parts"].items()))
    print(f"{failed} failed, {sum(p['state'] == 'skipped' for p in result['parts'].values())} skipped, "
          f"{sum(p['state'] == 'ok' for p in result['parts'].values())} ok; written to {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
