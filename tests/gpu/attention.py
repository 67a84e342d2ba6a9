"""The part of tests/gpu.sh for attention of our own on Hopper: right, and how fast beside cuDNN's."""

import json

from session import Skip, Trouble


def attention(s, found):
    """our attention on Hopper: results against f32, then TFLOP/s beside cuDNN's by turns"""
    s.needs("libcudnn.so.9")
    if s.rehearse:
        raise Skip("a rehearsal has no GPU")
    cases = found["cases"] = {}

    def case(line):
        if not line.startswith("{"):
            return
        r = json.loads(line)
        name = r["case"]
        cases[name] = r
        if "own" in r:
            s.row(name, f"{r['own']['tflops']:.0f} TFLOP/s", f"cuDNN {r['cudnn'].get('tflops', 0):.0f}; {r.get('times cudnn', 0):.2f} times as fast")
        else:
            why = r.get("error") or r.get("skipped") or ", ".join(f"{c['shape']}: {c['off']}" for c in r.get("checks", []) if not c["passed"])
            s.row(name, "ok" if r["passed"] else "FAILED", why[:300])

    code, text = s.run([s.program("gpu_attention"), "--seconds", 20], case)
    if code == 77:
        raise Skip(text.strip()[-200:])
    if code != 0:
        raise Trouble(f"gpu_attention: {sum(not r['passed'] for r in cases.values())} of {len(cases)} cases failed")
