#!/usr/bin/env python3
"""What of the Python client needs other packages: python3 frame_test.py --isobar build/isobar

isobar.results() equals runs.csv of a report and a sweep's index; README's lines run as they stand; mypy --strict passes
for the package and for a user's script, and finds what is wrong in one. Runs in .venv-client (bench/setup.sh --tests)
or the Python that ISOBAR_CLIENT_PYTHON names; prints SKIPPED where neither has pandas and mypy.
"""

import argparse
import contextlib
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = SOURCE / "bench/python"
sys.path.insert(0, str(PACKAGE))
try:
    import mypy  # noqa: F401
    import pandas
except ImportError as e:
    other = os.environ.get("ISOBAR_CLIENT_PYTHON", str(SOURCE / ".venv-client/bin/python"))
    if os.access(other, os.X_OK) and "ISOBAR_CLIENT_CALLED" not in os.environ:
        os.execve(other, [other, *sys.argv], {**os.environ, "ISOBAR_CLIENT_CALLED": "1"})
    print(f"SKIPPED: {e}: bench/setup.sh --tests makes .venv-client; or ISOBAR_CLIENT_PYTHON names a Python that has it")
    sys.exit(0)
import isobar  # noqa: E402


class Frame(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="isobar-frame-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def equal(self, frame, folder, *options):
        report = self.folder / "report"
        subprocess.run([isobar.program(), "report", folder, "-o", report, "--no-figures", *options], check=True,
                       capture_output=True)  # fmt: skip
        written = pandas.read_csv(report / "tables/runs.csv", float_precision="round_trip")
        pandas.testing.assert_frame_equal(frame, written, check_exact=True)

    def test_of_a_sweep_equals_runs_csv_and_the_index(self):
        out = self.folder / "sweep"
        isobar.sweep("vit-tiny", results=out, amp=["none", "bf16"], workers=[0, 1], steps=5, repetitions=2, repeat_contended=0)
        frame = isobar.results(out)
        self.assertEqual(len(frame), 8)
        self.equal(frame, out)
        self.assertEqual(set(frame["policy_amp"]), {"none", "bf16"})
        with sqlite3.connect(out / "index.sqlite") as index:
            rows = dict(index.execute("SELECT id, step_s_median FROM runs").fetchall())
        self.assertEqual(dict(zip(frame["id"], frame["step_s_median"])), rows)
        with self.assertRaises(isobar.Error):
            isobar.results(out, machine=self.folder / "none.yaml")

    def test_of_a_loop_equals_runs_csv(self):
        out = self.folder / "run"
        with isobar.run(out, net="vit-tiny", name="=mine()", note="a, b\nc") as r:
            for i in range(5):
                r.step(loss=1 / (i + 1))
        frame = isobar.results(out, statistic="min")
        self.equal(frame, out, "--statistic", "min")
        self.assertEqual(list(frame["class"]), ["ok"])

    def test_problems_are_warnings(self):
        out = self.folder / "run"
        with isobar.run(out, net="vit-tiny") as r:
            r.step(loss=1)
        with open(out / "result.jsonl", "a") as f:
            f.write("no record\n")
        with self.assertWarns(isobar.ProgramWarning):
            isobar.results(out)

    def test_no_run_is_an_error(self):
        with self.assertRaises(isobar.Error) as e:
            isobar.results(self.folder)
        self.assertEqual(e.exception.code, 2)

    def test_lines_of_the_readme_run(self):
        (code,) = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
        with open(self.folder / "said", "w+") as said:
            before = os.getcwd()
            os.chdir(self.folder)
            try:
                with contextlib.redirect_stdout(said):
                    exec(compile(code, "README.md", "exec"), {})
            finally:
                os.chdir(before)
            said.seek(0)
            text = said.read()
        self.assertIn("s a step", text)
        self.assertIn("final_loss", text)


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory(prefix="isobar-mypy-")
        cls.addClassCleanup(cls.cache.cleanup)

    def mypy(self, *files):
        words = ["--strict", "--cache-dir", self.cache.name, *map(str, files)]
        return subprocess.run([sys.executable, "-m", "mypy", *words], capture_output=True, text=True, cwd=PACKAGE)

    def test_package_is_strict(self):
        done = self.mypy("isobar")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_users_script_is_checked(self):
        lines = ["import isobar",
                 "step: float = isobar.predict('vit-384', machine='dgx-h100').step_s.value",
                 "one: isobar.Search = isobar.search('vit-384', machine='dgx-h100', gpus=8)",
                 "several: list[isobar.Search] = isobar.search('vit-384', machine='dgx-h100', gpus=[8, 16])",
                 "with isobar.run('runs/a', net='vit-tiny') as r:",
                 "    r.step(loss=0.5, samples=8)"]  # fmt: skip
        wrong = {2: "step: str = isobar.predict('vit-384', machine='dgx-h100').step_s.value",
                 3: "one: isobar.Sweep = isobar.search('vit-384', machine='dgx-h100', gpus=8)",
                 6: "    r.step(loss='low')"}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "script.py"
            file.write_text("\n".join(lines) + "\n")
            done = self.mypy(file)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            file.write_text("\n".join(wrong.get(i, line) for i, line in enumerate(lines, 1)) + "\n")
            done = self.mypy(file)
            self.assertEqual({int(n) for n in re.findall(r"script\.py:(\d+): error", done.stdout)}, set(wrong), done.stdout)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--isobar", required=True)
    known, rest = arguments.parse_known_args()
    os.environ["ISOBAR_PROGRAM"] = str(pathlib.Path(known.isobar).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
