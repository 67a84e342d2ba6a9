"""tests/gpu.sh's own promises, with programs made up here: all parts within ten minutes, and a stop loses nothing.

    python3 tests/gpu/script_test.py
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import parts
import smoke
import weights
from session import ROOT, Session, Stopped, Trouble, begin, end


def program(folder, name, text):
    file = folder / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.saved = []
        self.s = Session(binaries=self.path, env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": ""}, scratch=self.path, rehearse=False, missing={},
                         deadline=time.monotonic() + 60, out=self.path, logs=self.path / "logs", save=lambda: self.saved.append(list(self.s.rows)))
        self.s.part_ends = time.monotonic() + 5

    def test_all_parts_are_listed_with_their_times_within_ten_minutes(self):
        done = subprocess.run([ROOT / "tests/gpu.sh", "--dry-run", "--build", "nowhere"], capture_output=True, text=True, check=False)
        order = [line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith("part ")]
        self.assertEqual(order, ["smoke", "nets", "steps", "language", "predict", "configurations", "ranks", "trace", "attention", "peers", "sanitizer"])
        self.assertLessEqual(sum(p.expected for p in parts.ALL.values()), 570)
        for p in parts.ALL.values():
            self.assertIn(f"{p.expected} s expected on an H100", done.stdout)
            self.assertGreaterEqual(p.seconds, p.expected)

    def test_a_stopped_test_program_has_said_what_it_saw(self):
        program(self.path, "test_cuda", 'echo "[       OK ] Kernels.One (3 ms)"\necho "[  FAILED  ] Kernels.Two (3 ms)"\nsleep 60\n')
        found = {}
        with self.assertRaises(Trouble):
            smoke.gtest(self.s, found, "test_cuda")
        self.assertEqual(found["tests"], {"OK": 1, "FAILED": ["Kernels.Two"], "SKIPPED": []})
        self.assertEqual(self.saved[0][-1][:2], ("Kernels.Two", "FAILED"))  # before the stop
        self.assertIn("Kernels.One", (self.path / "logs/001-test_cuda.out").read_text())

    def test_a_stopped_training_counts_with_its_warm_steps(self):
        lines = [{"event": "run_start", "provenance": {}}] + [{"event": "step", "step": i, "seconds": 0.1} for i in range(9)]
        program(self.path, "isobar", "for w; do case $w in run.out=*) out=${w#run.out=};; esac; done\nmkdir -p $out\n"
                + "".join(f"echo '{json.dumps(x)}' >>$out/result.jsonl\n" for x in lines) + "exec sleep 60\n")
        run = end(self.s, begin(self.s, "net.yaml", [], 40))
        self.assertEqual(len(run["steps"]), 9)
        self.assertEqual(len((self.path / "logs/run1.jsonl").read_text().splitlines()), 10)
        self.s.part_ends = time.monotonic() + 5
        program(self.path, "isobar", "exec sleep 60\n")
        with self.assertRaises(Stopped):
            end(self.s, begin(self.s, "net.yaml", [], 40))

    def test_a_wrong_gradient_is_found(self):
        reference = {"a": [1.0, -2.0, 3.0] * 100, "b": [1e-3, 2e-3]}
        near = {n: [e * (1 + 1e-6) for e in x] for n, x in reference.items()}
        self.assertLess(weights.compare(near, reference)[1], 1e-5)
        self.assertEqual(weights.compare(near | {"b": [1.0, 2e-3]}, reference)[2], "b")
        self.assertGreater(weights.compare(near | {"b": [1.0, 2e-3]}, reference)[1], 10 * weights.TOLERANCES["bf16"][0])
        with self.assertRaises(Trouble):
            weights.compare({"a": [float("nan")]}, {"a": [1.0]})

    def test_weights_count_where_their_gradient_is_above_rounding(self):
        state = {"gradients": {"exp_avg.a": [1.0, 2.0], "exp_avg.b": [1e-3, 1e-3]}, "weights": {"a": [0.5, 0.5], "b": [0.5, 0.5]}}
        self.assertEqual(list(weights.with_gradients(state)), ["a"])


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
