#!/usr/bin/env python3
"""Nothing in the working directory is executed: python3 working_directory.py --isobar build/isobar --cc cc

A folder holds libraries of all names that the command links to or opens, programs of the names that it starts, and modules
of Python's: each leaves a mark. The command, two ranks and a helper in Python run there, also with empty and relative parts
in PATH and PYTHONPATH. That the traps work is shown first, by the environments that no program can guard against.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIBRARY = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void spring(void) {
  FILE* f = fopen("%s", "a");
  if (f) fprintf(f, "a library\\n"), fclose(f);
  _exit(99);
}
"""
PROGRAMS = ["mpiexec", "mpirun", "mpiexec.openmpi", "mpirun.openmpi", "mpiexec.hydra", "mpiexec.mpich", "orted", "prted",
            "ssh", "sh", "bash", "env", "python3", "python", "git", "numactl", "xdg-open", "sbatch", "qsub", "srun"]


def set_traps(folder, isobar, cc, mark):
    source = folder / "trap.c"
    source.write_text(LIBRARY % mark)
    library = folder / "trap.so"
    subprocess.run([cc, "-shared", "-fPIC", "-o", library, source], check=True)
    linked = subprocess.run(["ldd", isobar], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^\s*(lib\S+) =>", linked, re.M))
    names |= {n.decode() for n in re.findall(rb"\0(lib[a-zA-Z0-9_+-]+\.so\.[0-9]+)\0", pathlib.Path(isobar).read_bytes())}
    assert {"libzip.so.4"} <= names, names
    for name in names - {"libc.so.6"}:  # which the trap itself needs
        os.link(library, folder / name)
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >>{mark}\nexit 99\n")
        (folder / name).chmod(0o755)
    for name in ("sitecustomize", "zipfile", "struct", "numpy"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write('{name}.py\\n')\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--cc", required=True)
    args = parser.parse_args()
    isobar = os.path.abspath(args.isobar)
    source = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as temporary:
        folder, mark = pathlib.Path(temporary) / "data", pathlib.Path(temporary) / "mark"
        folder.mkdir()
        set_traps(folder, isobar, args.cc, mark)
        clean = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}

        def run(words, **more):
            done = subprocess.run(words, cwd=folder, env=clean | more, capture_output=True, text=True, timeout=600)
            sprung = mark.read_text() if mark.exists() else ""
            mark.unlink(missing_ok=True)
            return done, sprung

        def safe(what, words, code=0, **more):
            done, sprung = run(words, **more)
            assert not sprung, f"{what}: ran {sprung}"
            assert done.returncode == code, f"{what}: code {done.returncode}: {done.stdout}{done.stderr}"
            print(f"safe: {what}")
            return done

        done, sprung = run([isobar, "--help"], LD_LIBRARY_PATH=":")
        assert sprung or done.returncode != 0, "the libraries are no trap"
        assert run(["/bin/sh", "-c", "mpiexec"], PATH=":")[1], "the programs are no trap"
        assert run([sys.executable, "-c", ""], PYTHONPATH=":")[1], "the modules are no trap"

        path = clean.get("PATH", "/usr/bin:/bin")
        safe("the command", [isobar, "--help"])
        train = [isobar, "train", str(source / "configs/models/vit-tiny.yaml"), "--ranks", "2", "--set", "train.steps=1", "--set",
                 "train.global_batch=2", "--set", "run.threads=1", "--set"]
        safe("two ranks", train + ["run.out=out"])
        safe("two ranks, PATH with an empty and a relative part", train + ["run.out=out2"], PATH=f":.:{path}:")
        (folder / "a.ckpt").write_bytes(b"PK\3\4 is how such a file begins, and all that Python finds of it")
        safe("a helper in Python, PYTHONPATH with an empty part",
             [isobar, "import", "a.ckpt", "--config", str(source / "configs/models/aurora-tiny.yaml"), "-o", "a.safetensors"],
             code=2, PYTHONPATH=f":{folder.parent}")
        answer = safe("the doctor", [isobar, "doctor", "--json"], PATH=f":{path}")
        paths = [c for c in json.loads(answer.stdout)["checks"] if c["part"] == "search paths"]
        assert paths and paths[0]["health"] == "look" and "PATH" in paths[0]["found"], paths


main()
