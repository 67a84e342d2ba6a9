"""What tests/gpu.sh runs, part by part, the most valuable first. A part takes the session and the dict of its figures for
the JSON; it tells its lines as they come (Session.row) and runs what can fail by itself as cases (Session.case). It raises
Skip where it cannot run and Trouble where it ran and something is wrong."""

import glob
import json
import re
import shutil

from forecasts import configurations, predict
from ranks import ranks
from session import Skip, Trouble, difference, losses, tiny, train
from speed import ceiling, peers, steps, trace

# Largest relative difference of losses over 20 steps, between GPU and CPU, and between several ranks and one.
# fp32 differs by the order of sums; the others by rounding to 10, 8 and 11 bits of mantissa, which both sides
# do at the same places but not in the same order.
LOSS_TOLERANCE = {"none": 1e-4, "tf32": 2e-3, "bf16": 1e-2, "fp16": 2e-3}


def device(s, found):
    """driver, libraries and what isobar sees"""
    code, text = s.run([s.program("isobar"), "doctor", "--json"])
    found |= {"doctor": json.loads(text[text.index("{"):]) if "{" in text else {}, "exit": code}
    s.row("libraries", "all found" if not s.missing else "missing", ", ".join(s.missing))


def gtest(s, name, arguments=(), before=()):
    report = s.scratch / f"{name}.json"
    code, text = s.run([*before, s.program(name), f"--gtest_output=json:{report}", *arguments])
    if not report.exists():
        raise Trouble(f"{name} ended with {code}: {text.strip()[-500:]}")
    cases = [c for suite in json.loads(report.read_text())["testsuites"] for c in suite["testsuite"]]
    bad = [f"{c['classname']}.{c['name']}" for c in cases if c.get("failures")]
    skipped = [f"{c['classname']}.{c['name']}" for c in cases if c.get("result") == "SKIPPED"]
    return code, text, cases, bad, skipped


def ops(s, found):
    """every op against the CPU backend and float64; capture, arena, lanes (test_cuda)"""
    s.needs("libcublasLt.so.13")
    # Ranks on emulated GPUs need none: ctest runs them.
    code, text, cases, bad, skipped = gtest(s, "test_cuda", ["--gtest_filter=-NcclFaults.*:EmulatedRanks.*"])
    found |= {"tests": len(cases), "failed": bad, "skipped": skipped}
    s.row("op tests", f"{len(cases) - len(bad) - len(skipped)} of {len(cases)}", f"{len(skipped)} skipped: {', '.join(skipped[:4])}" if skipped else "")
    if bad or code != 0:
        raise Trouble(f"{len(bad)} failed: {', '.join(bad[:5])}")


def sanitizer(s, found):
    """compute-sanitizer over the kernels' tests: no access out of bounds, no race in shared memory"""
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not tool:
        raise Skip("compute-sanitizer is not here")

    def check(kind):
        code, text = s.run([tool, "--tool", kind, "--error-exitcode", "9", s.program("test_cuda"), "--gtest_filter=Kernels.*"])
        summary = next((line.strip("= ").strip() for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line), "")
        if not summary and re.search("Device not supported|not supported on", text):
            raise Skip(f"compute-sanitizer cannot work here: {text.strip()[-200:]}")
        found[kind] = {"exit": code, "summary": summary}
        if code != 0:
            raise Trouble(summary or text.strip()[-300:])
        s.row(f"sanitizer {kind}", "clean", summary)

    for kind in ("memcheck", "racecheck"):
        s.case(f"sanitizer {kind}", 30, lambda kind=kind: check(kind))


def modes(s, found):
    """whole-net parity with the CPU over 20 steps in fp32, tf32, bf16 and fp16"""
    s.needs("libcublasLt.so.13")

    def compare(amp):
        sets = ["train.global_batch=8", f"policy.amp={amp}"]
        off = difference(losses(train(s, tiny(s), sets, 20)), losses(train(s, tiny(s), [*sets, "run.device=cpu"], 20)))
        found[amp] = {"worst relative difference": off, "tolerance": LOSS_TOLERANCE[amp]}
        s.row(f"20 steps against the CPU, {'fp32' if amp == 'none' else amp}", f"{off:.1e}", f"tolerance {LOSS_TOLERANCE[amp]:.0e}")
        if not off < LOSS_TOLERANCE[amp]:
            raise Trouble("losses leave the CPU's")

    for amp in LOSS_TOLERANCE:
        s.case(f"modes {amp}", 15, lambda amp=amp: compare(amp))


# Each part with the seconds that an H100 is expected to need (estimates: none has run), the most it may take, and with how
# few left it is not begun.
ALL = {}
for _part, _expected, _most, _least in ((device, 5, 10, 5), (steps, 45, 80, 30), (ceiling, 12, 20, 10), (modes, 20, 40, 10),
                                        (ops, 45, 80, 20), (ranks, 110, 150, 30), (peers, 75, 110, 30), (trace, 30, 45, 20),
                                        (predict, 40, 60, 25), (configurations, 75, 100, 30), (sanitizer, 40, 60, 30)):
    _part.expected, _part.seconds, _part.least = _expected, _most, _least
    ALL[_part.__name__] = _part
