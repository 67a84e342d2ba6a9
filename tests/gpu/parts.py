"""What tests/gpu.sh runs, part by part. A part takes the session, and returns (figures for the JSON, rows for the table);
it raises Skip where it cannot run and Trouble where it ran and something is wrong."""

import glob
import json
import re
import shutil

from session import Skip, Trouble, difference, losses, tiny, train
from speed import bench, configurations, predict, trace

# Losses of a run on the GPU against the same run on the CPU, and of several ranks against one: largest relative
# difference over 20 steps. fp32: the order of sums. The others: what rounding to 10, 8 and 11 bits of mantissa makes of
# it; both sides round at the same places, but not in the same order.
LOSS_TOLERANCE = {"none": 1e-4, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-3}


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


ALL = {f.__name__: f for f in (device, ops, sanitizer, nccl, modes, bench, trace, predict, configurations)}
# Seconds that each may take, and with how few left it is not begun.
for _name, _seconds, _least in (("device", 10, 5), ("ops", 50, 20), ("sanitizer", 40, 30), ("nccl", 70, 40), ("modes", 25, 15),
                                ("bench", 170, 60), ("trace", 40, 25), ("predict", 45, 30), ("configurations", 90, 40)):
    ALL[_name].seconds, ALL[_name].least = _seconds, _least
