"""What a part of tests/gpu.sh has at hand: the programs and the libraries that they find, a time limit, training runs."""

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
# Libraries opened at run time, and their users.
LIBRARIES = {"libcuda.so.1": "everything", "libcublasLt.so.13": "steps, modes, ops, trace, predict",
             "libcudnn.so.9": "fused attention", "libnccl.so.2": "ranks", "libcupti.so.13": "trace"}


class Skip(Exception):
    pass


class Trouble(Exception):
    def __init__(self, text, found=None, rows=()):
        super().__init__(text)
        self.found, self.rows = found or {}, rows


@dataclasses.dataclass
class Session:
    binaries: pathlib.Path
    env: dict
    scratch: pathlib.Path
    rehearse: bool
    missing: dict           # library -> what needs it, for libraries that were not found
    deadline: float
    out: pathlib.Path
    part_ends: float = 0
    provenance: dict = dataclasses.field(default_factory=dict)
    runs: int = 0
    measured: dict = dataclasses.field(default_factory=dict)  # case -> step and memory, for peers and predictions
    ceiling: float = 0       # FLOP/s of large products, sustained
    machine: pathlib.Path | None = None  # calibrated

    rows: list = dataclasses.field(default_factory=list)  # of the part that runs, as they come
    bad: list = dataclasses.field(default_factory=list)   # its cases that failed

    def left(self):
        return self.deadline - time.monotonic()

    def row(self, *row):
        """A line of the table, told at once: a run that is cut off has told what it knew."""
        self.rows.append(row)
        print("   ", *row, flush=True)

    def case(self, name, seconds, work):
        """work() within its own time. What goes wrong in it is a line, and the next case runs; None then."""
        part_ends, self.part_ends = self.part_ends, min(self.part_ends, time.monotonic() + seconds)
        try:
            if part_ends - time.monotonic() < min(5, seconds):
                raise Skip("no time was left for it")
            return work()
        except Skip as e:
            self.row(name, "skipped", str(e))
        except Trouble as e:
            for row in e.rows:
                self.row(*row)
            self.row(name, "FAILED", str(e).splitlines()[0][-300:])
            self.bad.append(name)
        finally:
            self.part_ends = part_ends
        return None

    def program(self, name):
        path = self.binaries / name
        if not path.exists():
            raise Skip(f"{path} is not built")
        return path

    def needs(self, *libraries):
        if not self.rehearse:
            for name in libraries:
                if name in self.missing:
                    raise Skip(f"{name} was not found")

    def run(self, command, **env):
        """(exit code, output); stopped when its part's time is over, which is Trouble."""
        limit = max(5.0, min(self.part_ends, self.deadline) - time.monotonic())
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=self.env | env,
                                  timeout=limit, cwd=ROOT)
        except subprocess.TimeoutExpired as e:
            tail = (e.stdout or b"")[-600:].decode(errors="replace")
            raise Trouble(f"{pathlib.Path(str(command[0])).name} was stopped after {limit:.0f} s: {tail}") from e
        return done.returncode, done.stdout + done.stderr


def library_dirs():
    """Where CUDA's libraries may lie: the loader's own places, toolkits, and the packages of this Python."""
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
    """What our programs are started with, where each library was found, and what lacks one."""
    found = {name: find_library(name) for name in LIBRARIES}
    env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_WAIT_POLICY": "passive"}
    dirs = list(dict.fromkeys(os.path.dirname(p) for p in found.values() if p))
    system = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"}  # the loader's own folders
    dirs = [d for d in dirs if d not in system]
    if bundle:
        bundle = pathlib.Path(bundle).resolve()
        dirs.insert(0, str(bundle / "lib"))
        env |= {"PATH": f"{bundle / 'bin'}:{env['PATH']}", "OPAL_PREFIX": str(bundle), "OPAL_LIBDIR": str(bundle / "lib"),
                "OPAL_PKGLIBDIR": str(bundle / "lib" / "openmpi"), "OPAL_PKGDATADIR": str(bundle / "share" / "openmpi"),
                "OPAL_DATADIR": str(bundle / "share"), "PMIX_INSTALL_PREFIX": str(bundle),
                "ISOBAR_NVTX_PROBE": str(bundle / "lib" / "libnvtx_probe.so"), "OMPI_MCA_plm_rsh_agent": "sh",  # nothing is started elsewhere, and a bare machine has no ssh
                "PMIX_MCA_mca_base_component_path": str(bundle / "lib" / "pmix")}
    env["LD_LIBRARY_PATH"] = ":".join(dirs + [d for d in [os.environ.get("LD_LIBRARY_PATH")] if d])
    return env, found, {n: use for n, use in LIBRARIES.items() if not found[n]}


def unresolved(program, env):
    """Libraries that a program is linked to and the loader does not find."""
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


# ---- a training run ----
def train(s, config, sets, steps, trace=None):
    """Events of result.jsonl. Noise from memory, on the GPU unless this is a rehearsal."""
    s.runs += 1
    out = s.scratch / f"run{s.runs}"
    sets = ["data.train=", "data.valid=", f"run.device={'cpu' if s.rehearse else 'cuda'}", f"run.out={out}", f"train.steps={steps}", *sets]
    command = [s.program("isobar"), "train", config, "--json"]
    for item in sets:
        command += ["--set", item]
    if trace:
        command += ["--trace", trace]
    code, text = s.run(command)
    events = [json.loads(line) for line in (out / "result.jsonl").read_text().splitlines()] if (out / "result.jsonl").exists() else []
    if code != 0:
        raise Trouble(f"isobar train {pathlib.Path(config).name} {' '.join(sets[5:])} ended with {code}: {text.strip()[-500:]}")
    start = next(e for e in events if e["event"] == "run_start")
    s.provenance = start["provenance"]
    return {"start": start, "end": events[-1], "steps": [e for e in events if e["event"] == "step"], "events": events}


def losses(run):
    return [e["loss"] for e in run["steps"]]


def difference(a, b):
    """Largest relative difference, step by step; infinite when they are not as many or no numbers."""
    if len(a) != len(b) or not a:
        return float("inf")
    worst = max(abs(x - y) / max(abs(y), 1e-30) for x, y in zip(a, b))
    return worst if worst == worst else float("inf")


def tiny(s):
    return MODELS / "vit-tiny.yaml"
