#!/usr/bin/env python3
"""The wheel in a fresh environment: python3 wheel_test.py [WHEEL]        (build/wheel's; bench/wheel.sh makes it)

pip installs it without an index; then, in an empty folder and with an empty environment, the command predicts, searches,
plans, trains on one rank, sweeps and reports, by its own glibc too; its libraries are the wheel's. Several ranks are
refused with what to do, and run where a libmpi.so.40 is in LD_LIBRARY_PATH. README's lines run as they stand; for them
pandas comes from an index: SKIPPED where pip has none.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CLEAN = {"PATH": "/usr/bin:/bin", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LC_ALL": "C.UTF-8"}


def check(what, holds):
    if not holds:
        raise AssertionError(what)


class Fresh:
    """An environment with the wheel, and a folder to work in."""

    def __init__(self, folder, wheel):
        self.folder, self.bin = folder, folder / "venv/bin"
        venv.create(folder / "venv", with_pip=True)
        self.pip("--no-index", str(wheel))
        (self.package,) = (folder / "venv/lib").glob("python3*/site-packages/isobar")
        self.work = folder / "work"
        self.work.mkdir()

    def pip(self, *words):
        done = subprocess.run([self.bin / "pip", "install", "-q", "--disable-pip-version-check", *words],
                              capture_output=True, text=True)  # fmt: skip
        check(f"pip install {' '.join(words)}: {done.stderr}", done.returncode == 0)

    def run(self, program, *words, code=0, **more):
        env = {**CLEAN, "HOME": str(self.work), **more}
        done = subprocess.run([self.bin / program, *map(str, words)], capture_output=True, text=True, cwd=self.work, env=env,
                              timeout=300)  # fmt: skip
        check(f"{program} {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}", done.returncode == code)
        return done.stdout + done.stderr


def libraries_are_the_wheels(fresh):
    program = fresh.package / "bin/isobar-bin"
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=CLEAN).stdout
    outside = set(re.findall(r"(\S+)\.so\S* => /(?!\S*site-packages)", found))
    glibc = {"libc", "libm", "libpthread", "libresolv", "libdl", "librt"}
    check(f"not from the wheel: {outside - glibc}", outside <= glibc)
    check("libmpi of this machine", "no MPI" in fresh.run("isobar", "--version"))
    sys.path.insert(0, str(SOURCE / "tests/cli"))
    import binaries

    faults = {str(f): list(binaries.path_faults(f, None)) for f in binaries.binaries_in(fresh.package)}
    check(f"search paths: {faults}", not any(faults.values()))


def the_command_works(fresh, name, **env):
    models = fresh.package / "configs/models"
    out = fresh.work / name
    said = fresh.run("isobar", "predict", models / "vit-384.yaml", "--machine", "dgx-h100", "--json", **env)
    check("a step", '"step_s"' in said)
    fresh.run("isobar", "search", models / "llama3-8b.yaml", "--machine", "dgx-h100", "--gpus", 64, **env)
    fresh.run("isobar", "plan", models / "vit-384.yaml", "--totals", **env)
    fresh.run("isobar", "train", models / "vit-tiny.yaml", "--set", f"run.out={out}/run", **env)
    fresh.run("isobar", "sweep", models / "vit-tiny.yaml", "amp=none,bf16", "steps=4", "--results", f"{out}/sweep", **env)
    said = fresh.run("isobar", "report", f"{out}/sweep", "-o", f"{out}/report", "--no-figures", **env)
    check(f"two rows: {said}", (out / "report/tables/runs.csv").read_text().count(",ok,") == 2)
    check("a page", (out / "report/index.html").stat().st_size > 10000)


def several_ranks(fresh):
    tiny = fresh.package / "configs/models/vit-tiny.yaml"
    said = fresh.run("isobar", "train", tiny, "--ranks", 2, code=2)
    check(f"what to do: {said}", "no MPI" in said and "LD_LIBRARY_PATH" in said)
    library = pathlib.Path("/usr/lib/x86_64-linux-gnu/libmpi.so.40")
    if not library.exists() or not shutil.which("mpiexec.openmpi", path=CLEAN["PATH"]):
        return "two ranks not run: no Open MPI 4 here"
    folder = fresh.folder / "mpi"
    folder.mkdir()
    (folder / library.name).symlink_to(library)
    said = fresh.run("isobar", "train", tiny, "--ranks", 2, LD_LIBRARY_PATH=str(folder))
    check(f"two ranks: {said}", "2 ranks" in said or "dp2" in said)
    return ""


def readme_runs(fresh):
    (code,) = re.findall(r"```python\n(.*?)```", (SOURCE / "bench/python/README.md").read_text(), re.S)
    (fresh.work / "readme.py").write_text(code)
    check("its last lines", "final_loss" in fresh.run("python", "readme.py"))
    fresh.run("isobar", "report", "runs/mine", "-o", "reports/mine", "--no-figures")


def main():
    wheels = [pathlib.Path(w).resolve() for w in sys.argv[1:]] or sorted((SOURCE / "build/wheel").glob("*.whl"))
    if not wheels:
        print("SKIPPED: there is no wheel: bench/wheel.sh makes it")
        return
    notes = []
    with tempfile.TemporaryDirectory(prefix="isobar-wheel-") as folder:
        fresh = Fresh(pathlib.Path(folder), wheels[-1])
        libraries_are_the_wheels(fresh)
        the_command_works(fresh, "theirs")
        the_command_works(fresh, "own", ISOBAR_OWN_GLIBC="1")
        notes.append(several_ranks(fresh))
        index = subprocess.run([fresh.bin / "pip", "download", "-q", "--no-deps", "-d", fresh.folder / "index", "pandas"],
                               capture_output=True)  # fmt: skip
        if index.returncode == 0:
            fresh.pip("pandas")
            readme_runs(fresh)
        else:
            print("SKIPPED: README's lines: pip has no index to take pandas from; all else passed")
    print(f"{wheels[-1].name} works", *filter(None, notes), sep="; ")


if __name__ == "__main__":
    main()
