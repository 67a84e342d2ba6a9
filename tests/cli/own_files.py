#!/usr/bin/env python3
"""Nothing is opened that lies where one stands: python3 own_files.py --isobar build/isobar [--cmake cmake --build build]

Commands, ranks and servers run in a folder full of bait: programs, libraries, Python modules and configurations by every
name that they look for. The kernel tells (inotify) if one of them is opened, and the maps and descriptors of a running
server name no other file than the program's tree, the system's folders and what was named. Where strace is, the same of
every file that any process of theirs opens. For the build tree, a copy as `cmake --install` makes it (with --cmake) and
one as the bundle has it.
"""

import argparse
import ctypes
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "reports"))
import made_up  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/run", "/var/lib", "/opt", "/snap")
IN_OPEN, IN_ISDIR, IN_NONBLOCK = 0x20, 0x40000000, 0o4000

BAIT_PROGRAMS = (".venv-reports/bin/python", ".venv-reports/bin/python3", "python", "python3", "xdg-open", "mpiexec", "mpirun",
                 "mpiexec.openmpi", "mpirun.openmpi", "mpiexec.hydra", "mpiexec.mpich", "orted", "orterun", "prted", "prte",
                 "sbatch", "squeue", "sinfo", "scontrol", "qsub", "qstat", "isobar", "sh", "bash", "env", "ssh")  # fmt: skip
BAIT_MODULES = ("sitecustomize.py", "usercustomize.py", "vl_convert.py", "vl_convert/__init__.py", "json.py", "argparse.py",
                "base64.py", "pathlib.py", "torch.py", "numpy.py", "zipfile.py")  # fmt: skip
BAIT_FILES = ("reports/render.py", "reports/scripts/page.js", "reports/scripts/page_spec.js", "reports/scripts/page_tables.js",
              "reports/scripts/live.js", "reports/scripts/perfetto.js", "reports/figures/specs/base.vl.json", "render.py", "page.js",
              "live.js", "perfetto.js", "vega.js",
              "share/isobar/reports/render.py", "share/isobar/configs/machines/perlmutter.yaml", "configs/machines/perlmutter.yaml",
              "configs/machines/dgx-a100.yaml", "configs/engines/megatron.yaml", "configs/published/runs.csv", ".ncrc", ".daprc", ".dodsrc",
              "isobar.yaml", "isobar.json", ".isobar", ".isobarrc", "config.yaml", "machine.yaml", "sweep.yaml", "pyvenv.cfg",
              "openmpi-mca-params.conf", ".openmpi/mca-params.conf", "ld.so.preload", "locale", "openssl.cnf")  # fmt: skip


def check(what, holds):
    if not holds:
        raise AssertionError(what)


def libraries(isobar):
    """By the names that the dynamic linker is asked for, and those that are loaded while running."""
    named = subprocess.run(["ldd", isobar], capture_output=True, text=True, check=True).stdout
    loaded = ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2", "libnvidia-ml.so.1", "libcupti.so.12", "libcudnn.so.9",
              "libOpenCL.so.1", "libucp.so.0", "libpmix.so.2", "libnss_files.so.2", "libh5_plugin.so")  # fmt: skip
    return sorted({m[1] for m in re.finditer(r"^\s*(lib\S+\.so\S*)", named, re.M)} | set(loaded))


def lay_bait(folder, isobar, marks):
    """Whatever runs it leaves a mark; a library or a configuration of these is none, so taking one fails as well."""
    for name in BAIT_PROGRAMS:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\necho '{name}' >>{marks}\nexit 77\n")
        file.chmod(0o755)
    for name in BAIT_MODULES:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(marks)!r}, 'a').write('{name}\\n')\n")
    for name in (*BAIT_FILES, *libraries(isobar)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"bait: {name}\n")


class Opened:
    """The files of a folder that anybody opens, as the kernel tells."""

    def __init__(self, folder):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(IN_NONBLOCK)
        check(f"inotify: {os.strerror(ctypes.get_errno())}", self.fd >= 0)
        self.folders = {}
        for place in (folder, *(p for p in folder.rglob("*") if p.is_dir())):
            number = self.libc.inotify_add_watch(self.fd, os.fsencode(place), IN_OPEN)
            check(f"inotify of {place}: {os.strerror(ctypes.get_errno())}", number >= 0)
            self.folders[number] = place

    def seen(self):
        out = set()
        while True:
            try:
                events = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return out
            while events:
                number, mask, _, length = struct.unpack_from("iIII", events)
                name = events[16 : 16 + length].rstrip(b"\0").decode()
                if name and not mask & IN_ISDIR:
                    out.add(str(self.folders[number] / name))
                events = events[16 + length :]

    def close(self):
        os.close(self.fd)


def inside(path, places):
    return any(path == p or path.startswith(p.rstrip("/") + "/") for p in places)


def strange(paths, places):
    return sorted(p for p in paths if p.startswith("/") and not inside(p, places))


def of_process(pid):
    """The files that a process has mapped, or open."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    files = {m[1] for line in maps if (m := re.search(r" (/.*)$", line))}
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            file = os.readlink(entry)
            if file != "/memfd:stderr (deleted)":  # what a helper prints (program.cpp): memory, with a name for a path
                files.add(file)
        except FileNotFoundError:
            pass  # closed meanwhile
    return {f.removesuffix(" (deleted)") for f in files}


OPENED = re.compile(r"^\d+ +open(?:at|at2)?\(.* = \d+<(/[^>]*)>$")
STARTED = re.compile(r'^\d+ +execve\("([^"]*)".* = 0$')


def traced(trace, start):
    """The files that strace saw opened or started with success, by whole paths."""
    out = set()
    for line in trace.read_text(errors="replace").splitlines():
        if m := OPENED.match(line):
            out.add(m[1].removesuffix(" (deleted)"))
        elif m := STARTED.match(line):
            out.add(os.path.normpath(os.path.join(start, m[1])))
    return {f for f in out if not os.path.isdir(f)}


class Stand:
    """A working directory of bait, and a program that runs in it."""

    def __init__(self, name, isobar, tree, folder, named):
        self.name, self.isobar = name, isobar
        self.here, self.marks = folder / f"bait-{name}", folder / f"marks-{name}"
        self.here.mkdir()
        lay_bait(self.here, isobar, self.marks)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        python = [str(p) for p in {pathlib.Path(sys.base_prefix), *pathlib.Path(shutil.which("python3")).resolve().parents[1:2]}]
        # pyenv's python3 is a script beside its versions
        home = [str(pathlib.Path(p).parent) for p in os.environ["PATH"].split(":") if "pyenv" in p]
        self.places = [*SYSTEM, str(tree), str(temporary), *map(str, named), *python, *home, "/dev/shm"]
        venv = SOURCE / ".venv-reports/bin/python"
        self.env = {
            **os.environ, "PATH": f":.:{os.environ['PATH']}:", "PYTHONPATH": ":.", "TMPDIR": str(temporary),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "ISOBAR_CACHE_DIR": str(temporary / "cache"),
            "DISPLAY": "", "WAYLAND_DISPLAY": "", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        if venv.exists() and tree != SOURCE:
            self.env["ISOBAR_REPORT_PYTHON"] = str(venv)
            self.places.append(str(SOURCE / ".venv-reports"))

    def clean(self, opened, what):
        left = self.marks.read_text() if self.marks.exists() else ""
        check(f"{self.name}: {what} ran {left}", not left)
        seen = opened.seen()
        check(f"{self.name}: {what} opened {sorted(seen)} of the working directory", not seen)

    def runs(self, *words, code=0):
        trace = self.here.with_suffix(".trace")
        command = [str(self.isobar), *map(str, words)]
        if STRACE:
            command = [STRACE, "-f", "-qq", "-y", "-s", "4096", "-o", str(trace), "-e", "trace=open,openat,openat2,execve", *command]
        opened = Opened(self.here)
        done = subprocess.run(command, cwd=self.here, env=self.env, capture_output=True, text=True, timeout=300)
        check(f"{self.name}: {words[0]}: code {done.returncode}\n{done.stdout}\n{done.stderr}", done.returncode == code)
        self.clean(opened, words[0])
        opened.close()
        if STRACE:
            others = strange(traced(trace, str(self.here)), self.places)
            check(f"{self.name}: {words[0]} opened {others[:20]}", not others)
        return done.stdout

    def serves(self, *words):
        opened = Opened(self.here)
        server = subprocess.Popen([str(self.isobar), *map(str, words)], cwd=self.here, env=self.env, stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split()[-1]
            subprocess.run([sys.executable, "-c", "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=30).read()", address],
                           check=True, timeout=60)  # fmt: skip
            files = of_process(server.pid)
            check(f"{self.name}: {words[0]} has mapped little: {files}", any("libc.so" in f for f in files))
            others = strange(files, self.places)
            check(f"{self.name}: a running {words[0]} has {others[:20]}", not others)
            server.terminate()
            check(f"{self.name}: {words[0]} ended with {server.wait(20)}", server.returncode == 0)
            self.clean(opened, words[0])
        finally:
            server.kill()
            server.wait()
            opened.close()


def stand_of_copy(kind, args, folder):
    """The program with its tree, laid out as it is installed or bundled: its own files and nothing around them."""
    prefix = folder / kind
    if kind == "installed":
        subprocess.run([args.cmake, "--install", args.build, "--prefix", prefix, "--component", "command"],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        return prefix / "bin/isobar", prefix
    (prefix / "bin").mkdir(parents=True)
    shutil.copy2(args.isobar, prefix / "bin/isobar")
    if shutil.which("patchelf"):
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/../lib", prefix / "bin/isobar"], check=True)
    shutil.copytree(SOURCE / "configs", prefix / "configs")
    shutil.copytree(SOURCE / "reports/scripts", prefix / "reports/scripts")
    shutil.copytree(SOURCE / "reports/figures/specs", prefix / "reports/figures/specs")
    shutil.copy2(SOURCE / "reports/render.py", prefix / "reports")
    return prefix / "bin/isobar", prefix


def use(stand, folder, results):
    models = [SOURCE / f"configs/models/{name}.yaml" for name in ("vit-tiny", "llama3-8b", "vit")]  # the first inherits the last
    config, language = models[:2]
    out = folder / f"out-{stand.name}"
    stand.places += [*map(str, models), str(results), str(out)]
    said = stand.runs("search", language, "--machine", "perlmutter", "--gpus", "16")
    check(f"{stand.name}: whose perlmutter? {said}", str(stand.here) not in said)
    stand.runs("data", "make-points", out / "data", "--steps", "2")
    stand.runs("data", "inspect", out / "data/ocean.nc")
    stand.runs("train", config, "--ranks", "2", "--set", "train.steps=3", "--set", f"run.out={out}/run", "--trace", out / "trace.json")
    stand.runs("report", results, "-o", out / "report")
    page = (out / "report/index.html").read_text()
    check(f"{stand.name}: there is bait on the page", "bait" not in page)
    stand.serves("open", out / "report")
    stand.serves("open", out / "trace.json")
    stand.serves("watch", results, "--serve")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", type=pathlib.Path, required=True)
    parser.add_argument("--cmake")
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    args.isobar = args.isobar.resolve()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="isobar-own-files-") as temporary:
        folder = pathlib.Path(temporary).resolve()
        results = folder / "results"
        made_up.write(args.isobar, results, 12, seed=5)
        if not (results / "sweep.json").exists():
            (results / "sweep.json").write_text('{"schema": 1, "trials": []}')
        stands = [Stand("build", args.isobar, SOURCE, folder, [SOURCE, args.isobar.parent])]
        for kind in ("bundled", *(["installed"] if args.cmake else [])):
            stands.append(Stand(kind, *stand_of_copy(kind, args, folder), folder, []))
        for stand in stands:
            use(stand, folder, results)
    seen = "and by strace" if STRACE else "(no strace here)"
    print(f"{', '.join(s.name for s in stands)}: as inotify and /proc have it, {seen}; {time.monotonic() - begin:.0f} s")
    print("passed")


STRACE = shutil.which("strace")
if __name__ == "__main__":
    main()
