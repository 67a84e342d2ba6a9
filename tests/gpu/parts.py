"""What tests/gpu.sh runs, part by part. A part takes the session, and returns (figures for the JSON, rows for the table);
it raises Skip where it cannot run and Trouble where it ran and something is wrong."""

import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "configs" / "models"
# Losses of a run on the GPU against the same run on the CPU, and of several ranks against one: largest relative
# difference over 20 steps. fp32: the order of sums. The others: what rounding to 10, 8 and 11 bits of mantissa makes of
# it; both sides round at the same places, but not in the same order.
LOSS_TOLERANCE = {"none": 1e-4, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-3}
# Libraries that are opened at run time, and what needs them.
LIBRARIES = {"libcuda.so.1": "everything", "libcublasLt.so.13": "ops, modes, bench, trace, predict",
             "libcudnn.so.9": "fused attention", "libnccl.so.2": "nccl", "libcupti.so.13": "trace"}


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
    missing: dict           # library -> what needs it, of those that were not found
    deadline: float
    out: pathlib.Path
    part_ends: float = 0
    provenance: dict = dataclasses.field(default_factory=dict)
    runs: int = 0
    arena: dict = dataclasses.field(default_factory=dict)  # case -> measured step and memory, for the prediction
    machine: pathlib.Path | None = None  # calibrated

    def left(self):
        return self.deadline - time.monotonic()

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
    system = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"}  # the loader looks there by itself
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


# ---- parts ----
def device(s):
    """driver, libraries and what isobar sees"""
    code, text = s.run([s.program("isobar"), "doctor", "--json"])
    checks = json.loads(text[text.index("{"):]) if "{" in text else {}
    rows = [("libraries", "all found" if not s.missing else "missing", ", ".join(s.missing))]
    return {"doctor": checks, "exit": code}, rows


def gtest(s, name, arguments=(), before=()):
    report = s.scratch / f"{name}.json"
    code, text = s.run([*before, s.program(name), f"--gtest_output=json:{report}", *arguments])
    if not report.exists():
        raise Trouble(f"{name} ended with {code}: {text.strip()[-500:]}")
    cases = [c for suite in json.loads(report.read_text())["testsuites"] for c in suite["testsuite"]]
    bad = [f"{c['classname']}.{c['name']}" for c in cases if c.get("failures")]
    skipped = [f"{c['classname']}.{c['name']}" for c in cases if c.get("result") == "SKIPPED"]
    return code, text, cases, bad, skipped


def ops(s):
    """every op against the CPU backend and float64; capture, arena, lanes (test_cuda)"""
    s.needs("libcublasLt.so.13")
    code, text, cases, bad, skipped = gtest(s, "test_cuda", [])
    found = {"tests": len(cases), "failed": bad, "skipped": skipped}
    row = ("op tests", f"{len(cases) - len(bad) - len(skipped)} of {len(cases)}", f"{len(skipped)} skipped: {', '.join(skipped[:4])}" if skipped else "")
    if bad or code != 0:
        raise Trouble(f"{len(bad)} failed: {', '.join(bad[:5])}", found, [row])
    return found, [row]


def sanitizer(s):
    """compute-sanitizer over the kernels' tests: no access out of bounds, no race in shared memory"""
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not tool:
        raise Skip("compute-sanitizer is not here")
    found, rows = {}, []
    for check in ("memcheck", "racecheck"):
        code, text = s.run([tool, "--tool", check, "--error-exitcode", "9", s.program("test_cuda"),
                            "--gtest_filter=Kernels.*"])
        summary = next((line.strip("= ").strip() for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line), "")
        if not summary and re.search("Device not supported|not supported on", text):
            raise Skip(f"compute-sanitizer cannot work here: {text.strip()[-200:]}")
        found[check] = {"exit": code, "summary": summary}
        rows.append((f"sanitizer {check}", "clean" if code == 0 else "FAILED", summary))
        if code != 0:
            raise Trouble(f"{check}: {summary or text.strip()[-300:]}", found, rows)
    return found, rows


LAYOUTS = {"dp2": ["layout.dp=2"], "tp2": ["layout.tp=2"], "cp2": ["layout.cp=2"], "pp2": ["layout.pp=2"],
           "tp2 pp2": ["layout.tp=2", "layout.pp=2"]}


def nccl(s):
    """transfers and whole nets on 2 to 4 ranks of one GPU, against one rank: a correctness mode"""
    s.needs("libnccl.so.2", "libcublasLt.so.13")
    found, rows, worst = {"mode": "correctness: several ranks share one GPU and talk over sockets"}, [], 0.0
    if not s.rehearse:
        for ranks in (2, 3):
            code, text = s.run(["mpiexec", "-n", ranks, "--oversubscribe", "--bind-to", "none", s.program("test_nccl"), "--gtest_brief=1"])
            found[f"transfers on {ranks}"] = {"exit": code, "tail": text.strip()[-200:]}
            rows.append((f"NCCL transfers, {ranks} ranks", "ok" if code == 0 and "SKIPPED" not in text else "FAILED", "one GPU: correctness mode"))
            if code != 0 or "SKIPPED" in text:
                raise Trouble(f"test_nccl on {ranks} ranks: {text.strip()[-500:]}", found, rows)
    common = ["train.global_batch=4", "policy.micro_batch=1", "policy.amp=none", "run.hang_timeout=60", "run.threads=1"]
    one = losses(train(s, tiny(s), common, 20))
    for name, layout in LAYOUTS.items():
        run = train(s, tiny(s), common + layout, 20)
        off = difference(losses(run), one)
        found[name] = {"worst relative difference of 20 losses": off, "losses": losses(run)}
        worst = max(worst, off)
        if not off < LOSS_TOLERANCE["none"]:
            raise Trouble(f"{name}: losses are off by {off:.1e} from one rank's", found, rows)
    rows.append(("layouts against one rank", f"{worst:.1e}", f"{', '.join(LAYOUTS)}: losses of 20 steps, fp32; correctness mode"))
    return found, rows


def modes(s):
    """whole-net parity with the CPU over 20 steps in fp32, tf32, bf16 and fp16"""
    s.needs("libcublasLt.so.13")
    found, rows, bad = {}, [], []
    for amp, tolerance in LOSS_TOLERANCE.items():
        sets = ["train.global_batch=8", f"policy.amp={amp}"]
        here = losses(train(s, tiny(s), sets, 20))
        there = losses(train(s, tiny(s), [*sets, "run.device=cpu"], 20))
        off = difference(here, there)
        found[amp] = {"worst relative difference": off, "tolerance": tolerance}
        rows.append((f"20 steps against the CPU, {'fp32' if amp == 'none' else amp}", f"{off:.1e}", f"tolerance {tolerance:.0e}"))
        if not off < tolerance:
            bad.append(amp)
    if bad:
        raise Trouble(f"losses leave the CPU's in {', '.join(bad)}", found, rows)
    return found, rows


# What issue and README ask for: told beside the figure, whether it is met or not. A figure that misses is no failure of
# this script.
FASTER_THAN_TORCH, SHARE_OF_PRODUCT, CALIBRATED_ERROR, FITTED_ERROR = 1.15, 0.60, 0.05, 0.03


def aim(met, text):
    return f"aim {text}: {'met' if met else 'MISSED'}"


def memory_row(name, run):
    """The arena as planned, and what the device holds after the last step beside it: named constants and a rest."""
    events = [e["gpu"] for e in run["events"] if e["event"] == "device"]
    planned, first, last = run["start"]["memory"]["arena"], events[0], events[-1]
    if first["arena_bytes"] != planned:
        raise Trouble(f"{name}: the arena on the device has {first['arena_bytes']} bytes, the plan says {planned}")
    constants = {k: first.get(k, 0) for k in ("context_bytes", "library_bytes", "nccl_bytes", "landing_bytes")}
    rest = last["in_use_bytes"] - planned - sum(constants.values())  # graphs, kernels that were loaded late
    told = ", ".join(f"{k.removesuffix('_bytes')} {v / 2**20:.0f}" for k, v in constants.items() if v)
    return (f"{name} arena", f"{planned / 2**20:.0f} MiB", f"as planned to the byte; beside it {told}, later {rest / 2**20:+.0f} MiB"), rest


CASES = {"vit-384": 16, "vit-1536": 4}  # config: batch that fits into 80 GB with room, and fills the chip


# Beside the run with graphs: without them; without products that take in other ops; GELU as cuBLASLt has it (tanh), with
# all that it can take in, and algorithms by timing.
VARIANTS = {"without graphs": ["run.cuda_graphs=false"], "without fusion": ["run.fuse=false"],
            "timed, tanh GELU": ["run.gemm_choice=timed", "net.gelu=tanh"]}
MOST_BESIDE = 512 << 20  # bytes on the device that no line names


def torch_peer(s, spec, steps, compiled):
    net, batch = spec["net"], spec["train"]["global_batch"]
    command = [sys.executable, ROOT / "bench/peers/vit.py", "--embed-dim", net["embed_dim"], "--depth", net["depth"], "--heads",
               net["num_heads"], "--patch", net["patch_size"], "--mlp-ratio", net["mlp_ratio"], "--img", net["img_height"],
               net["img_width"], "--channels", net["in_channels"], net["out_channels"], "--batch", batch, "--optimizer",
               spec["train"]["optimizer"], "--amp", spec["policy"]["amp"], "--steps", steps, "--warmup", 5,
               "--device", "cpu" if s.rehearse else "cuda"] + (["--compile"] if compiled else [])
    code, text = s.run(command, LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", ""))
    if code != 0:
        raise Trouble(f"vit.py{' --compile' if compiled else ''}: {text.strip()[-400:]}")
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def bench(s):
    """ViT D=384 and D=1536 in bf16 beside PyTorch, and as a share of a large product's rate; graphs on and off"""
    s.needs("libcublasLt.so.13")
    found, rows = {}, []
    peer = torch_version() if not s.rehearse or importlib.util.find_spec("torch") else None
    cases = {"vit-tiny": 8} if s.rehearse else CASES
    for name, batch in cases.items():
        sets = [f"train.global_batch={batch}", "policy.micro_batch=0", "policy.amp=bf16", "data.workers=8" if not s.rehearse else "data.workers=0"]
        steps = 12 if s.rehearse else 40
        runs = {"graphs": train(s, MODELS / f"{name}.yaml", sets, steps)}
        for kind, more in VARIANTS.items():
            runs[kind] = None if s.rehearse else train(s, MODELS / f"{name}.yaml", [*sets, *more], 16)
        one = found[name] = {"batch": batch}
        for kind, run in runs.items():
            if run:
                seconds = [e["seconds"] - e["data_wait_s"] for e in run["steps"][4:]]
                one[kind] = {"step_s": statistics.median(seconds), "samples_per_s": batch / statistics.median(seconds),
                             "memory": run["start"]["memory"],
                             "gpu": next((e["gpu"] for e in run["events"] if e["event"] == "device"), None)}
        ours = one["graphs"]
        flops = 3 * runs["graphs"]["start"]["flops_forward_per_sample"] * ours["samples_per_s"]
        ours["flops_per_s"] = flops
        s.arena[name] = {"step_s": ours["step_s"], "arena": ours["memory"]["arena"], "flops_per_s": flops, "sets": sets}
        rows.append((f"{name} bf16 batch {batch}", f"{ours['samples_per_s']:.1f} samples/s", f"{ours['step_s'] * 1e3:.2f} ms a step, {flops * 1e-12:.1f} TFLOP/s"))
        for kind in VARIANTS:
            if kind in one:
                gpu = one[kind]["gpu"] or {}
                rows.append((f"{name} {kind}", f"{one[kind]['samples_per_s']:.1f} samples/s",
                             f"{(one[kind]['step_s'] - ours['step_s']) * 1e3:+.2f} ms a step; fused {gpu.get('fused')}"))
        if ours["gpu"]:
            row, rest = memory_row(name, runs["graphs"])
            one["beside_arena_bytes"] = rest
            rows.append(row)
            if rest > MOST_BESIDE:
                raise Trouble(f"{name}: {rest} bytes on the device that neither the plan nor a constant names", found, rows)
        if routines := runs["graphs"]["end"].get("routines"):
            one["routines"] = routines
            longest = sorted(routines, key=lambda r: -r["seconds"])[:3]
            rows.append((f"{name} routines", "", ", ".join(f"{r['name']} {1e3 * r['seconds'] / r['count']:.2f} ms" for r in longest)))
        if not peer:
            rows.append((f"{name} PyTorch", "skipped", "this Python has no torch"))
            continue
        for kind in ("eager", "compile"):
            try:
                r = torch_peer(s, runs["graphs"]["start"]["spec"], steps, kind == "compile")
            except Trouble as e:  # the peer's failure is not ours; it is told
                one[f"torch {kind}"] = {"failed": str(e)}
                rows.append((f"{name} PyTorch {kind}", "failed", str(e)[-120:].replace("\n", " ")))
                continue
            median = statistics.median(r["seconds"])
            one[f"torch {kind}"] = {"step_s": median, "samples_per_s": batch / median} | {k: r[k] for k in r if k not in ("seconds", "pid")}
            rows.append((f"{name} PyTorch {kind}", f"{batch / median:.1f} samples/s", f"Isobar is {median / ours['step_s']:.2f} times as fast; {aim(median >= FASTER_THAN_TORCH * ours['step_s'], '1.15')}"))
            if rate := r.get("matmul_flops_per_s"):
                one["matmul_flops_per_s"] = max(rate, one.get("matmul_flops_per_s", 0))
        if rate := one.get("matmul_flops_per_s"):
            one["share_of_matmul"] = flops / rate
            rows.append((f"{name} share of a large product", f"{100 * flops / rate:.1f} %", f"8192^3 bf16 at {rate * 1e-12:.0f} TFLOP/s in PyTorch, same run"
                         + (f"; {aim(flops >= SHARE_OF_PRODUCT * rate, '60 %')}" if name == "vit-1536" else "")))
    return found, rows


def trace(s):
    """CUPTI: share of device time that belongs to ops, and what tracing costs, with graphs and without"""
    s.needs("libcupti.so.13", "libcublasLt.so.13")
    found, rows = {}, []
    config = "vit-tiny" if s.rehearse else "vit-384"
    sets = ["train.global_batch=8", "policy.micro_batch=0", "policy.amp=bf16"]
    kinds = {"": []} if s.rehearse else {"graphs": [], "no graphs": ["run.cuda_graphs=false"]}
    for kind, more in kinds.items():
        plain, traced = [], []
        for i in range(2):  # by turns, so that what drifts touches both
            for times, file in ((plain, None), (traced, s.scratch / f"trace-{kind or 'cpu'}{i}.json")):
                run = train(s, MODELS / f"{config}.yaml", [*sets, *more], 24, file)
                times += [e["seconds"] - e["data_wait_s"] for e in run["steps"][-10:]]  # the traced ones, where they are
        share = next((e for e in run["events"] if e["event"] == "device_share"), None)
        overhead = statistics.median(traced) / statistics.median(plain) - 1
        found[kind or "cpu"] = {"overhead": overhead, "device_share": share, "plain_s": plain, "traced_s": traced}
        rows.append((f"tracing overhead {kind}".strip(), f"{100 * overhead:+.1f} %", "median of 20 steps each, by turns"))
        if s.rehearse:
            continue
        if not share:
            raise Trouble("the traced run says nothing of device_share", found, rows)
        rows.append((f"device time of ops, {kind}", f"{100 * share['joined_share']:.2f} %", share["text"]))
        if share["joined_share"] < 0.98:
            raise Trouble(f"{kind}: only {100 * share['joined_share']:.2f} % of the device's time belongs to ops", found, rows)
    return found, rows


def predict(s):
    """calibrate this machine, then predicted against measured arena and step"""
    s.needs("libcublasLt.so.13")
    machine = s.scratch / "machine.yaml"
    if not s.arena:
        raise Skip("the part bench measured nothing to compare with")
    if s.rehearse:  # a spec sheet, for want of a minute
        machine = ROOT / "configs" / "machines" / "example-2core.yaml"
    else:
        code, text = s.run([s.program("isobar"), "calibrate", "-o", machine, "--device", "cuda"])
        if code != 0:
            raise Trouble(f"isobar calibrate ended with {code}: {text.strip()[-400:]}")
        s.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(machine, s.out / "gpu-machine.yaml")
    s.machine = machine
    found, rows, bad = {}, [], []
    if not s.rehearse:
        peaks = [b for b in json.loads(machine.with_suffix(".benchmarks.json").read_text())["benchmarks"]
                 if b.get("run_type", "iteration") == "iteration" and b["name"].startswith("peak/bf16")]
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
        rate = max(b["flops"] / (b["real_time"] * unit[b["time_unit"]]) for b in peaks)
        found["product_bf16_flops_per_s"] = rate
        shares = ", ".join(f"{n} {100 * m['flops_per_s'] / rate:.1f} %" for n, m in s.arena.items())
        rows.append(("large product by cuBLASLt", f"{rate * 1e-12:.0f} TFLOP/s", f"8192^3 bf16; of it: {shares}"))
    for name, measured in s.arena.items():
        command = [s.program("isobar"), "predict", MODELS / f"{name}.yaml", "--machine", machine, "--json"]
        for item in [*measured["sets"], f"run.device={'cpu' if s.rehearse else 'cuda'}", "data.train="]:
            command += ["--set", item]
        code, text = s.run(command)
        if code != 0:
            raise Trouble(f"isobar predict {name} ended with {code}: {text.strip()[-400:]}", found, rows)
        p = json.loads(text[text.index("{"):])
        step = p["step_s"]
        plan_command = [s.program("isobar"), "plan", MODELS / f"{name}.yaml", "--totals", "--json"] + command[command.index("--set"):]
        code, text = s.run(plan_command)
        if code != 0:
            raise Trouble(f"isobar plan {name} ended with {code}: {text.strip()[-400:]}", found, rows)
        arena = json.loads(text[text.index("{"):])["memory"]["arena"]
        found[name] = {"predicted": p, "measured_step_s": measured["step_s"], "measured_arena": measured["arena"]}
        rows.append((f"{name} arena predicted", f"{arena} B", "equal" if arena == measured["arena"] else f"measured {measured['arena']} B"))
        rows.append((f"{name} step predicted", f"{step * 1e3:.2f} ms", f"{100 * (step / measured['step_s'] - 1):+.1f} % off"))
        if arena != measured["arena"]:
            bad.append(name)
    if bad:
        raise Trouble(f"the arena is not what was predicted: {', '.join(bad)}", found, rows)
    return found, rows


def configurations(s):
    """the predictor over 30 configurations: by calibration alone, and fitted to ten of them"""
    s.needs("libcublasLt.so.13")
    if not s.machine:
        raise Skip("the part predict calibrated no machine")
    axes = {"net.embed_dim": [256, 384, 512, 768, 1024], "train.global_batch": [2, 4, 8], "policy.recompute": ["none", "full"]}
    fixed = {"data.train": "", "data.valid": "", "policy.amp": "bf16", "net.depth": 6, "run.device": "cuda"}
    if s.rehearse:
        axes, fixed = {"net.embed_dim": [32, 64], "train.global_batch": [2, 4]}, {"data.train": "", "data.valid": ""}
    base = MODELS / ("vit-tiny.yaml" if s.rehearse else "vit-384.yaml")
    spec = s.scratch / "configurations.yaml"  # JSON is YAML
    spec.write_text(json.dumps({"base": str(base), "set": fixed, "steps": 12, "warmup": 4, "axes": axes, "timeout_s": 60, "hang_s": 30}))
    results, rows = s.scratch / "configurations", []
    try:
        code, text = s.run([s.program("isobar"), "sweep", spec, "--results", results])
        if code != 0:
            raise Trouble(f"isobar sweep ended with {code}: {text.strip()[-400:]}")
    except Trouble as e:  # out of time: what is there counts
        if "was stopped" not in str(e):
            raise
    wanted = 1
    for values in axes.values():
        wanted *= len(values)
    errors, found = [], {"configurations": []}
    for trial in sorted(results.glob("trials/*")):
        events = [json.loads(line) for line in (trial / "result.jsonl").read_text().splitlines()] if (trial / "result.jsonl").exists() else []
        if not events or events[-1]["event"] != "run_end":
            continue
        measured = events[-1]["step_s"]["median"]
        code, text = s.run([s.program("isobar"), "predict", trial / "spec.json", "--machine", s.machine, "--json"])
        if code != 0:
            raise Trouble(f"isobar predict {trial.name} ended with {code}: {text.strip()[-400:]}", found, rows)
        predicted = json.loads(text[text.index("{"):])["step_s"]
        errors.append(abs(predicted / measured - 1))
        found["configurations"].append({"id": trial.name, "measured_s": measured, "predicted_s": predicted})
    if not errors:
        raise Trouble("no configuration was run to its end", found, rows)
    median = statistics.median(errors)
    found |= {"median_error": median}
    rows.append((f"{len(errors)} of {wanted} configurations", f"{100 * median:.1f} %", f"median error by calibration alone; {aim(median <= CALIBRATED_ERROR, '5 %')}"))
    fitted = s.scratch / "fitted.yaml"
    code, text = s.run([s.program("isobar"), "fit", results, "--machine", s.machine, "-o", fitted, "--fraction", f"{10 / wanted if wanted > 10 else 0.5:.4f}", "--json"])
    if code == 2:  # it says what it does not take
        rows.append(("fitted to ten of them", "skipped", text.strip()[-200:]))
        return found, rows
    if code != 0:
        raise Trouble(f"isobar fit ended with {code}: {text.strip()[-400:]}", found, rows)
    held_out = found["held_out"] = json.loads(text[text.index("{"):])["held_out"]
    rows.append(("fitted to ten of them", f"{100 * held_out['median_error']:.1f} %",
                 f"median error of the other {held_out['runs']}; {aim(held_out['median_error'] <= FITTED_ERROR, '3 %')}"))
    return found, rows


ALL = {f.__name__: f for f in (device, ops, sanitizer, nccl, modes, bench, trace, predict, configurations)}
# Seconds that each may take, and with how few left it is not begun.
for _name, _seconds, _least in (("device", 10, 5), ("ops", 50, 20), ("sanitizer", 40, 30), ("nccl", 70, 40), ("modes", 25, 15),
                                ("bench", 170, 60), ("trace", 40, 25), ("predict", 45, 30), ("configurations", 90, 40)):
    ALL[_name].seconds, ALL[_name].least = _seconds, _least
