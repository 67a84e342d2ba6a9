"""Parts of tests/gpu.sh that run our test programs: device, libraries and kernels; compute-sanitizer."""

import glob
import re
import shutil

from session import Skip, Stopped, Trouble, json_of, tiny, train

ENDED = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)(?:,.*)? \(\d+ ms\)")


def gtest(s, found, name, arguments=(), before=()):
    """Runs a test program, and counts its tests as they end, so that a stopped one has said what it saw."""
    seen = found.setdefault("tests", {"OK": 0, "FAILED": [], "SKIPPED": []})

    def count(line):
        m = ENDED.match(line)
        if not m:
            return
        if m[1] == "OK":
            seen["OK"] += 1
        else:
            seen[m[1]].append(m[2])
        if m[1] == "FAILED":
            s.row(m[2], "FAILED", "")

    stopped, code = None, 0
    try:
        code, text = s.run([*before, s.program(name), *arguments], count)
    except Stopped as e:
        stopped, text = e, str(e)
    skipped = seen["SKIPPED"]
    s.row(f"{name}", f"{seen['OK']} passed", f"{len(seen['FAILED'])} failed, {len(skipped)} skipped: {', '.join(skipped[:4])}" +
          (f"; {str(stopped).splitlines()[0]}" if stopped else ""))
    if seen["FAILED"] or code != 0:
        raise Trouble(f"{len(seen['FAILED'])} failed: {', '.join(seen['FAILED'][:5])}" if seen["FAILED"] else f"{name} ended with {code}: {text.strip()[-300:]}")
    if not seen["OK"] and stopped:
        raise stopped


def smoke(s, found):
    """driver, libraries, three steps, then every op against the CPU back end and float64 (test_cuda)"""
    code, text = s.run([s.program("isobar"), "doctor", "--json"])
    found |= {"doctor": json_of(text) if "{" in text else {}, "exit": code}
    s.row("libraries", "all found" if not s.missing else "missing", ", ".join(s.missing))
    s.needs("libcublasLt.so.13")

    def three_steps():
        run = train(s, tiny(s), ["policy.amp=bf16"], 3)
        found["three steps"] = [e["loss"] for e in run["steps"]]
        s.row("three steps bf16", "ok", f"losses {', '.join(format(x, '.4f') for x in found['three steps'])}")

    s.case("three steps", 30, three_steps)
    # Emulated GPUs need none, so ctest runs those tests.
    chosen = "AttentionPath.*:GemmKey.*:StreamOrder.*" if s.rehearse else "-NcclFaults.*:EmulatedRanks.*:*EmulatedTraces.*:OnGpu.Products*"
    s.case("op tests", 60, lambda: gtest(s, found, "test_cuda", [f"--gtest_filter={chosen}"]))
    if not s.rehearse:  # their CPU reference takes half a minute
        s.case("product tests", 60, lambda: gtest(s, found, "test_cuda", ["--gtest_filter=OnGpu.Products*"]))


def sanitizer(s, found):
    """compute-sanitizer over the kernels' tests: no access out of bounds, no race in shared memory"""
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not tool:
        raise Skip("compute-sanitizer is not here")
    if s.rehearse:
        raise Skip("a rehearsal has no GPU")

    def check(kind):
        before, one = [tool, "--tool", kind, "--error-exitcode", "9"], {}
        found[kind] = one
        gtest(s, one, "test_cuda", ["--gtest_filter=Kernels.*"], before)

    for kind in ("memcheck", "racecheck"):
        s.case(f"sanitizer {kind}", 30, lambda kind=kind: check(kind))
