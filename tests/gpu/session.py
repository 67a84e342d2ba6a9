"""Environment of a part of tests/gpu.sh: programs and their libraries, time limits, logs that outlive a stop, training runs."""

import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "configs" / "models"
# Libraries loaded at run time, and the parts that need them.
LIBRARIES = {"libcuda.so.1": "everything", "libcublasLt.so.13": "smoke, nets, steps, trace, predict",
             "libcudnn.so.9": "fused attention", "libnccl.so.2": "ranks", "libcupti.so.13": "trace"}
WARM = 4  # steps before those that are timed


class Skip(Exception):
    pass


class Trouble(Exception):
    pass


class Stopped(Trouble):
    """A command reached its part's time limit."""


@dataclasses.dataclass
class Session:
    binaries: pathlib.Path
    env: dict
    scratch: pathlib.Path
    rehearse: bool
    missing: dict           # library not found -> parts that need it
    deadline: float
    out: pathlib.Path
    logs: pathlib.Path      # of every command, written as it writes; and the records of every training run
    save: object = lambda: None  # writes all results; called with every line of the table
    part_ends: float = 0
    provenance: dict = dataclasses.field(default_factory=dict)
    runs: int = 0
    measured: dict = dataclasses.field(default_factory=dict)  # case -> step and memory, for peers and predictions
    machine: pathlib.Path | None = None  # calibrated

    rows: list = dataclasses.field(default_factory=list)  # of the current part, in order
    bad: list = dataclasses.field(default_factory=list)   # failed cases of the current part
    commands: int = 0
    patience: float = 1      # factor on all limits: an emulated GPU is slow

    def left(self):
        return self.deadline - time.monotonic()

    def row(self, *row):
        """Prints a line of the table and saves all results, so that an interrupted run has reported it."""
        self.rows.append(row)
        print("   ", *row, flush=True)
        self.save()

    def case(self, name, seconds, work):
        """Runs work() within a time limit. A failure is reported as a line, returns None, and the next case runs."""
        part_ends, self.part_ends = self.part_ends, min(self.part_ends, time.monotonic() + self.patience * seconds)
        try:
            if part_ends - time.monotonic() < min(5, seconds):
                raise Skip("no time was left for it")
            return work()
        except Skip as e:
            self.row(name, "skipped", str(e))
        except Trouble as e:
            self.bad.append(name)
            self.row(name, "FAILED", str(e).splitlines()[0][-300:])
        finally:
            self.part_ends = part_ends
        return None

    def program(self, name):
        path = self.binaries / name
        if not path.exists():
            raise Skip(f"{path} is not built")
        return path

    def trainer(self):
        """`isobar` on a GPU; in a rehearsal the same command on emulated GPUs, or where that is not built on the CPU."""
        emulated = self.binaries / "emulated_train"
        return emulated if self.rehearse and emulated.exists() else self.program("isobar")

    def device(self):
        return "cpu" if self.rehearse and self.trainer().name == "isobar" else "cuda"

    def emulation(self):
        """Environment variables with which the emulator's ranks find its NCCL, NVML and CUPTI."""
        if self.trainer().name == "isobar":
            return {}
        nccl = self.binaries.resolve() / "emulated_nccl"
        return {"LD_LIBRARY_PATH": f"{nccl}:{nccl.parent / 'emulated_cupti'}:{self.env['LD_LIBRARY_PATH']}", "ISOBAR_NCCL_NEXT": str(nccl / "libnccl.so.2")}

    def needs(self, *libraries):
        if not self.rehearse:
            for name in libraries:
                if name in self.missing:
                    raise Skip(f"{name} was not found")

    def start(self, command, **env):
        """A command whose output goes to the logs as it comes; to be given to finish()."""
        self.commands += 1
        self.logs.mkdir(parents=True, exist_ok=True)
        name = self.logs / f"{self.commands:03}-{pathlib.Path(str(command[0])).name}"
        files = [name.with_suffix(s) for s in (".out", ".err")]
        with files[0].open("w") as out, files[1].open("w") as err:
            err.write("$ " + " ".join(map(str, command)) + "\n")
            err.flush()
            child = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err, env=self.env | env, cwd=ROOT)
        return child, files

    def finish(self, started, on_line=None):
        """(exit code, output); on_line gets every line of stdout as it comes. Raises Stopped at its part's time limit."""
        child, (out, err) = started
        begun, limit, seen = time.monotonic(), max(5.0, min(self.part_ends, self.deadline) - time.monotonic()), 0
        stopped = False
        while child.poll() is None:
            if time.monotonic() > begun + limit:
                stopped = True
                child.terminate()
                try:
                    child.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
            elif on_line:
                seen = lines_of(out, seen, on_line)
            time.sleep(0.02)
        if on_line:
            lines_of(out, seen, on_line)
        said = "\n".join(err.read_text(errors="replace").splitlines()[1:])
        text = out.read_text(errors="replace") + said
        if stopped:
            raise Stopped(f"{pathlib.Path(child.args[0]).name} was stopped after {limit:.0f} s: {text.strip()[-400:]}")
        return child.returncode, text

    def run(self, command, on_line=None, **env):
        return self.finish(self.start(command, **env), on_line)

    def kill(self, started):
        """Ends a command that is not waited for."""
        if started[0].poll() is None:
            started[0].kill()
            started[0].wait()


def lines_of(file, seen, on_line):
    """Gives the whole lines after byte `seen`; returns the byte after the last one."""
    with file.open("rb") as f:
        f.seek(seen)
        text = f.read()
    whole = text[:text.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        on_line(line)
    return seen + len(whole)


def library_dirs():
    """Folders that may contain CUDA's libraries: the loader's, toolkits, and this Python's packages."""
    places = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
              "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    places += sorted(glob.glob("/usr/local/cuda-13*/lib64")) + sorted(glob.glob("/usr/local/cuda-13*/extras/CUPTI/lib64"))
    for site in sys.path:
        places += sorted(glob.glob(f"{site}/nvidia/*/lib"))
    return [p for p in places if os.path.isdir(p)]


def find_library(name):
    cached = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout if shutil.which("ldconfig") else ""
    if m := re.search(rf"^\s*{re.escape(name)} .*=> (\S+)", cached, re.MULTILINE):
        return m.group(1)
    return next((f"{d}/{name}" for d in library_dirs() if os.path.exists(f"{d}/{name}")), None)


def environment(bundle):
    """Environment variables for our programs, where each library was found, and which parts lack one."""
    found = {name: find_library(name) for name in LIBRARIES}
    env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_WAIT_POLICY": "passive"}
    dirs = list(dict.fromkeys(os.path.dirname(p) for p in found.values() if p))
    system = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"}  # searched by default
    dirs = [d for d in dirs if d not in system]
    if bundle:
        bundle = pathlib.Path(bundle).resolve()
        dirs.insert(0, str(bundle / "lib"))
        env |= {"PATH": f"{bundle / 'bin'}:{env['PATH']}", "OPAL_PREFIX": str(bundle), "OPAL_LIBDIR": str(bundle / "lib"),
                "OPAL_PKGLIBDIR": str(bundle / "lib" / "openmpi"), "OPAL_PKGDATADIR": str(bundle / "share" / "openmpi"),
                "OPAL_DATADIR": str(bundle / "share"), "PMIX_INSTALL_PREFIX": str(bundle),
                # what the tests read and run: tests/paths.h
                "ISOBAR_TEST_SOURCE": str(bundle), "ISOBAR_TEST_BUILD": str(bundle / "bin"),
                # no remote start: a bare machine has no ssh
                "ISOBAR_NVTX_PROBE": str(bundle / "lib" / "libnvtx_probe.so"), "OMPI_MCA_plm_rsh_agent": "sh",
                "PMIX_MCA_mca_base_component_path": str(bundle / "lib" / "pmix")}
    env["LD_LIBRARY_PATH"] = ":".join(dirs + [d for d in [os.environ.get("LD_LIBRARY_PATH")] if d])
    return env, found, {n: use for n, use in LIBRARIES.items() if not found[n]}


def unresolved(program, env):
    """Linked libraries that the loader does not find."""
    if not shutil.which("ldd"):
        return []
    out = subprocess.run(["ldd", program], capture_output=True, text=True, env=env, check=False).stdout
    return [line.split()[0] for line in out.splitlines() if "not found" in line]


def torch_version():
    if not importlib.util.find_spec("torch"):
        return None
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def aim(met, text):
    return f"aim {text}: {'met' if met else 'MISSED'}"


# ---- training runs ----
@dataclasses.dataclass
class Training:
    config: pathlib.Path
    sets: list
    out: pathlib.Path
    steps: int
    started: tuple


def begin(s, config, sets, steps, trace=None, cpu=False):
    """Starts a training run on noise from memory, on the GPU unless `cpu`."""
    s.runs += 1
    out = s.scratch / f"run{s.runs}"
    device = "cpu" if cpu else s.device()
    command = [s.program("isobar") if cpu else s.trainer(), "train", config, "--json"]
    for item in ["data.train=", "data.valid=", f"run.device={device}", f"run.out={out}", f"train.steps={steps}", *sets]:
        command += ["--set", item]
    if trace:
        command += ["--trace", trace]
    return Training(config, sets, out, steps, s.start(command, **({} if cpu else s.emulation())))


def end(s, t):
    """The run's records. A run that was stopped counts with the steps that it did, if some of them are warm."""
    what, stopped, log = f"isobar train {pathlib.Path(t.config).name} {' '.join(t.sets)}", None, t.out / "result.jsonl"
    try:
        code, text = s.finish(t.started)
    except Stopped as e:
        code, text, stopped = 0, "", e
    events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")] if log.exists() else []
    if log.exists():
        shutil.copy(log, s.logs / f"{t.out.name}.jsonl")
    steps = [e for e in events if e["event"] == "step"]
    if stopped and len(steps) < 2 * WARM:
        raise stopped
    if code != 0 or not events:
        raise Trouble(f"{what} ended with {code}: {text.strip()[-500:]}")
    start = next(e for e in events if e["event"] == "run_start")
    s.provenance = start["provenance"]
    if stopped:
        s.row(pathlib.Path(t.config).stem, "stopped", f"after {len(steps)} of {t.steps} steps, which count")
    return {"start": start, "end": events[-1], "steps": steps, "events": events, "out": t.out}


def train(s, config, sets, steps, trace=None, cpu=False):
    return end(s, begin(s, config, sets, steps, trace, cpu))


def json_of(text):
    """The first JSON object of a program's output."""
    return json.JSONDecoder().raw_decode(text[text.index("{"):])[0]


def tiny(s):
    return MODELS / "vit-tiny.yaml"
