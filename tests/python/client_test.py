#!/usr/bin/env python3
"""The Python client against the program's own answers and files: python3 client_test.py --isobar build/isobar

Predictions, searches and sweeps are compared with the program's JSON and a sweep's SQLite index; runs recorded from a
loop with result.jsonl, for loops that end well, raise, are killed at any moment, or leave children behind. Needs the
standard library alone; what needs pandas and mypy is in frame_test.py. Settings and losses are drawn: a failure prints
the seed, which ISOBAR_TEST_SEED sets.
"""

import argparse
import ast
import json
import os
import pathlib
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = SOURCE / "bench/python"
sys.path.insert(0, str(PACKAGE))
import isobar  # noqa: E402

SEED = int(os.environ.get("ISOBAR_TEST_SEED", random.SystemRandom().randrange(1 << 31)))
DRAWN = random.Random(SEED)
TWO_CORES = str(SOURCE / "configs/machines/example-2core.yaml")


def program(*words):
    return subprocess.run([isobar.program(), *map(str, words)], capture_output=True, text=True)


def records(folder, event):
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "result.jsonl").read_text().splitlines()]
    return [r for r in lines if r["event"] == event]


def wait_for(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def end_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, with its children


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="isobar-client-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Package(Case):
    def test_import_needs_the_standard_library_alone(self):
        code = "import sys; before = set(sys.modules); import isobar; print('pandas' in sys.modules, 'numpy' in sys.modules)"
        done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); {code}"],
                              capture_output=True, text=True, check=True)  # fmt: skip
        self.assertEqual(done.stdout, "False False\n")

    def test_syntax_is_that_of_python_3_9(self):
        for file in (PACKAGE / "isobar").glob("*.py"):
            ast.parse(file.read_text(), feature_version=(3, 9))

    def test_version_is_the_programs(self):
        version = program("--version").stdout.split()[1].rstrip(",")
        self.assertIn(f'version = "{version}"', (PACKAGE / "pyproject.toml").read_text())

    def test_a_program_that_is_none_is_said(self):
        before = os.environ["ISOBAR_PROGRAM"]
        try:
            os.environ["ISOBAR_PROGRAM"] = str(self.folder / "none")
            with self.assertRaises(isobar.Error) as e:
                isobar.program()
        finally:
            os.environ["ISOBAR_PROGRAM"] = before
        self.assertIn("ISOBAR_PROGRAM", e.exception.message)


class Answers(Case):
    def test_predict_is_the_programs_answer(self):
        batch, ranks = DRAWN.choice([8, 16, 24]), DRAWN.choice([1, 2, 4])
        amp = DRAWN.choice(["none", "bf16"])
        p = isobar.predict("vit-384", machine=TWO_CORES, ranks=ranks, policy={"amp": amp}, train={"global_batch": batch})
        done = program("predict", SOURCE / "configs/models/vit-384.yaml", "--machine", TWO_CORES, "--ranks", ranks, "--set",
                       f"policy.amp={amp}", "--set", f"train.global_batch={batch}", "--json")  # fmt: skip
        j = json.loads(done.stdout)
        self.assertEqual((p.step_s.value, p.step_s.lower, p.step_s.upper), (j["step_s"], j["lower_s"], j["upper_s"]))
        self.assertAlmostEqual(p.samples_per_s.lower, batch / p.step_s.upper)
        self.assertAlmostEqual(p.samples_per_s.upper, batch / p.step_s.lower)
        self.assertAlmostEqual(sum(t.seconds for t in p.terms), p.step_s.value, delta=1e-6 * p.step_s.value)
        self.assertEqual((p.memory_bytes, p.ranks, p.layout["dp"]), (j["memory_total_bytes"], ranks, ranks))
        self.assertEqual(float(p.step_s), p.step_s.value)

    def test_a_configuration_may_be_its_keys(self):
        keys = {"net": {"kind": "vit", "embed_dim": 64 * DRAWN.randint(1, 4), "num_heads": 4}, "train": {"global_batch": 4}}
        file = self.folder / "run.yaml"
        file.write_text(json.dumps(keys))
        self.assertEqual(isobar.predict(keys, machine=TWO_CORES).step_s, isobar.predict(file, machine=TWO_CORES).step_s)

    def test_what_does_not_fit_is_an_answer(self):
        p = isobar.predict("llama3-70b", machine="dgx-h100", policy={"zero": 0, "recompute": "none"})
        self.assertFalse(p.fits)
        self.assertGreater(p.memory_bytes, p.memory_there_bytes)
        s = isobar.search("llama3-70b", machine="dgx-h100", gpus=2)
        self.assertEqual((s.best, s.prediction), ((), None))
        self.assertIn("no layout on 2 fits", s.does_not_fit)

    def test_a_refusal_is_the_programs_line(self):
        done = program("predict", SOURCE / "configs/models/vit-384.yaml", "--machine", "no-such", "--json")
        with self.assertRaises(isobar.Error) as e:
            isobar.predict("vit-384", machine="no-such")
        self.assertEqual((e.exception.message, e.exception.code), (done.stderr.strip(), 2))
        for call, words in ((lambda: isobar.predict("vit-384", machine="dgx-h100", tp=2), "layout.tp"),
                            (lambda: isobar.predict("no-net", machine="dgx-h100"), "no-net"),
                            (lambda: isobar.search("vit-384", machine="dgx-h100", gpus=8, fix=["tq=2"]), "tq")):  # fmt: skip
            with self.assertRaises(isobar.Error) as e:
                call()
            self.assertIn(words, e.exception.message)
        with self.assertRaises(TypeError):
            isobar.predict("vit-384", machine=TWO_CORES, policy={"amp": None})

    def test_search_of_one_and_of_several(self):
        tp = DRAWN.choice([1, 2, 4])
        one = isobar.search("llama3-8b", machine="dgx-h100", gpus=16, top=4, fix=[f"tp={tp}"])
        self.assertEqual(len(one.best), 4)
        self.assertEqual({b.layout["tp"] for b in one.best}, {tp})
        self.assertEqual(one.prediction.step_s.value, one.best[0].step_s)
        self.assertAlmostEqual(sum(t.chance for t in one.ties), 1, delta=0.5)
        both = isobar.search("llama3-8b", machine="dgx-h100", gpus=[16, 32], engine="nemo")
        self.assertEqual([s.gpus for s in both], [16, 32])
        self.assertIsInstance(both[0].ties[0].layout, str)

    def test_sweep_is_what_its_index_has(self):
        batch = DRAWN.choice([4, 8])
        out = self.folder / "sweep"
        planned = isobar.sweep("vit-tiny", amp=["none", "bf16"], steps=4, train={"global_batch": batch}, dry_run=True)
        self.assertEqual([t.run_class for t in planned.trials], ["", ""])
        s = isobar.sweep("vit-tiny", results=out, amp=["none", "bf16"], steps=4, train={"global_batch": batch})
        self.assertTrue(s.complete)
        with sqlite3.connect(out / "index.sqlite") as index:
            rows = dict(index.execute("SELECT id, step_s_median FROM runs WHERE global_batch = ?", (batch,)).fetchall())
        self.assertEqual({t.id: t.step_s for t in s.trials}, rows)
        self.assertEqual({t.id for t in planned.trials}, set(rows))
        self.assertEqual({t.settings["policy.amp"] for t in s.trials}, {"none", "bf16"})


LOOP = """
import os, random, sys, time
sys.path.insert(0, {package!r})
import isobar
with isobar.run({out!r}, net="vit-tiny", train={{"global_batch": 8}}) as r:
    print(r._process.pid, flush=True)
    {extra}
    for i in range(1, 100000):
        r.step(loss=1 / i, samples=8)
        os.write(1, b"%d\\n" % i)
        time.sleep({sleep})
"""


class Loops(Case):
    def recorded(self, **settings):
        return isobar.run(self.folder / "run", net="vit-tiny", train={"global_batch": 8}, **settings)

    def test_records_are_what_the_loop_reported(self):
        losses = [DRAWN.random() for _ in range(DRAWN.randint(5, 30))]
        seconds = [DRAWN.uniform(0.1, 0.12) for _ in losses]
        samples = [8] + [DRAWN.randint(1, 8) for _ in losses[1:]]
        with self.recorded(layout={"dp": 2}, steps=len(losses), name="mine", tags=["a", "b"]) as r:
            for loss, time_s, n in zip(losses, seconds, samples):
                r.step(loss=loss, seconds=time_s, samples=n, lr=0.5)
            r.valid(loss=0.25, rmse=[1, 2.5], seconds=3)
            r.checkpoint(self.folder / "w.pt", seconds=2)
        steps = records(self.folder / "run", "step")
        self.assertEqual([s["loss"] for s in steps], losses)
        self.assertEqual([s["step"] for s in steps], list(range(1, len(losses) + 1)))
        for step, time_s, n in zip(steps, seconds, samples):
            self.assertAlmostEqual(step["samples_per_s"], n / time_s)
        (start,) = records(self.folder / "run", "run_start")
        self.assertEqual((start["ranks"], start["spec"]["train"]["steps"]), (2, len(losses)))
        self.assertEqual(start["provenance"]["about"], {"name": "mine", "tags": ["a", "b"]})
        (valid,) = records(self.folder / "run", "valid")
        self.assertEqual((valid["loss"], valid["rmse"], valid["step"]), (0.25, [1, 2.5], len(losses)))
        (checkpoint,) = records(self.folder / "run", "checkpoint")
        self.assertEqual(checkpoint["path"], str(self.folder / "w.pt"))
        (end,) = records(self.folder / "run", "run_end")
        self.assertEqual((r.end.status, r.end.steps), ("ok", len(losses)))
        self.assertAlmostEqual(r.end.step_s, statistics.median(seconds[1:]))  # the first is the warm-up
        self.assertEqual(end["final_loss"], losses[-1])
        self.assertGreater(end["peak_rss_bytes"], 1 << 20)

    def test_a_step_is_the_time_since_the_call_before(self):
        with self.recorded() as r:
            r.step(loss=1)
            time.sleep(0.3)
            r.valid(loss=1, seconds=0.3)
            time.sleep(0.05)
            r.step(loss=1)
        second = records(self.folder / "run", "step")[1]["seconds"]
        self.assertGreaterEqual(second, 0.05)
        self.assertLess(second, 0.3)

    def test_tokens_are_samples_of_a_net_of_tokens(self):
        net = {"kind": "gpt", "seq_length": 128}
        with isobar.run(self.folder / "run", net=net, train={"global_batch": 4}) as r:
            r.step(loss=1, seconds=0.5, tokens=4 * 128)
            r.step(loss=1, seconds=0.5, tokens=2 * 128)
        self.assertEqual([s["samples_per_s"] for s in records(self.folder / "run", "step")], [8, 4])

    def test_watch_report_and_check_read_it(self):
        with self.recorded() as r:
            for i in range(6):
                r.step(loss=1 / (i + 1), seconds=0.02)
        seen = program("watch", self.folder / "run", "--once").stdout
        self.assertIn("step 6", seen)
        done = program("report", self.folder / "run", "-o", self.folder / "report", "--no-figures")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(",0.02,", (self.folder / "report/tables/runs.csv").read_text())
        reference = self.folder / "reference.jsonl"
        for update, code in ((["--update"], 0), ([], 5)):  # one run of one day each: too few to tell
            done = program("check", self.folder / "run", "--reference", reference, *update)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_fit_reads_it(self):
        p = isobar.predict("vit-tiny", machine=TWO_CORES, train={"global_batch": 8})
        slower = DRAWN.uniform(1.5, 2.5)
        with self.recorded() as r:
            for _ in range(8):
                r.step(loss=1, seconds=p.step_s.value * slower * DRAWN.uniform(0.99, 1.01))
        fitted = self.folder / "fitted.yaml"
        done = program("fit", self.folder / "run", "--machine", TWO_CORES, "-o", fitted)
        self.assertEqual(done.returncode, 0, done.stderr)
        again = isobar.predict("vit-tiny", machine=fitted, train={"global_batch": 8})
        self.assertGreater(again.step_s.value / p.step_s.value, 1.1)  # one run moves it, by less than all
        self.assertLess(again.step_s.value / p.step_s.value, slower)

    def test_an_exception_has_its_class(self):
        class OutOfMemoryError(RuntimeError):
            pass

        OutOfMemoryError.__module__, OutOfMemoryError.__qualname__ = "torch", "OutOfMemoryError"
        for error, run_class in ((MemoryError(), "oom_host"), (OutOfMemoryError("tried"), "oom_device"),
                                 (KeyboardInterrupt(), "interrupted"), (ValueError("my own"), "crash")):  # fmt: skip
            with self.subTest(run_class):
                out = self.folder / run_class
                with self.assertRaises(type(error)):
                    with isobar.run(out, net="vit-tiny") as r:
                        r.step(loss=1)
                        raise error
                (end,) = records(out, "run_end")
                self.assertEqual((end["status"], end["class"]), ("failed", run_class))
                self.assertEqual(r.end.run_class, run_class)
        self.assertIn("my own", end["message"])

    def test_leaving_the_program_is_an_end(self):
        for code, status in ((0, "ok"), (None, "ok"), (7, "failed")):
            with self.subTest(code):
                with self.assertRaises(SystemExit):
                    with isobar.run(self.folder / f"exit{code}", net="vit-tiny") as r:
                        r.step(loss=1)
                        sys.exit(code)
                self.assertEqual(r.end.status, status)

    def test_a_step_that_is_interrupted_does_not_shift_the_answers(self):
        with self.recorded() as r:
            r.step(loss=1)
            answer, r._answer = r._answer, lambda: (_ for _ in ()).throw(KeyboardInterrupt)
            with self.assertRaises(KeyboardInterrupt):
                r.step(loss=0.5)
            r._answer = answer
            r.valid(loss=0.25)
        self.assertEqual((r.end.status, r.end.steps), ("ok", 2))

    def test_a_loss_that_is_no_number_is_numeric(self):
        with self.recorded() as r:
            r.step(loss=1)
            r.step(loss=DRAWN.choice([float("nan"), float("inf")]))
        self.assertEqual(r.end.run_class, "numeric")

    def started(self, out, sleep=0.0, extra="pass"):
        code = LOOP.format(package=str(PACKAGE), out=str(out), sleep=sleep, extra=extra)
        with open(self.folder / "loop.err", "a") as errors:
            loop = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        self.addCleanup(loop.stdout.close)
        self.addCleanup(loop.wait)
        self.addCleanup(end_group, loop.pid)
        return loop, int(loop.stdout.readline())

    def test_a_killed_loop_loses_no_step(self):
        for part in range(6):
            out = self.folder / str(part)
            loop, recorder = self.started(out)
            time.sleep(DRAWN.uniform(0, 0.3))
            with_recorder = part % 2 == 1
            if with_recorder:  # as a scheduler ends a job: all at once
                os.kill(recorder, signal.SIGKILL)
            loop.kill()
            said = loop.stdout.read().decode().split()
            loop.wait()
            if not with_recorder:
                wait_for("run_end", lambda: records(out, "run_end"))
                (end,) = records(out, "run_end")
                self.assertEqual(end["class"], "crash")
            steps = [s["step"] for s in records(out, "step")]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
            self.assertGreaterEqual(len(steps), int(said[-1]) if said else 0)

    def test_a_recorder_that_is_killed_is_said(self):
        with self.assertRaises(isobar.Error):
            with self.recorded() as r:
                r.step(loss=1)
                os.kill(r._process.pid, signal.SIGKILL)
                for _ in range(3):
                    r.step(loss=1)

    def test_children_of_a_dead_loop_do_not_keep_its_run_open(self):
        loop, recorder = self.started(self.folder / "run", 0.01, "child = os.fork() or (time.sleep(30), os._exit(0))")
        wait_for("a step", lambda: records(self.folder / "run", "step"))
        loop.kill()
        wait_for("run_end", lambda: records(self.folder / "run", "run_end"), 10)

    def test_ctrl_c_reaches_the_loop_alone(self):
        loop, recorder = self.started(self.folder / "run", 0.01)
        wait_for("a step", lambda: records(self.folder / "run", "step"))
        for stop in (signal.SIGINT, signal.SIGTERM):
            os.kill(recorder, stop)
        os.kill(loop.pid, signal.SIGINT)
        loop.wait()
        wait_for("run_end", lambda: records(self.folder / "run", "run_end"))
        self.assertEqual(records(self.folder / "run", "run_end")[0]["class"], "interrupted")

    def test_refusals_name_what_to_do(self):
        with self.assertRaises(isobar.Error) as e:
            self.recorded().step(loss=1)
        self.assertIn("with", e.exception.message)
        for words, steps in (("train.global_batch", [{"samples": 9}]), ("count the steps up", [{"step": 3}, {"step": 3}]),
                             ("above 0", [{"seconds": 0}]), ("nets of tokens", [{"tokens": 5}]),
                             ("keep one of the two", [{"tokens": 5, "samples": 8}])):  # fmt: skip
            with self.subTest(words):
                with self.assertRaises(isobar.Error) as e:
                    with isobar.run(self.folder / words.replace(" ", "-"), net="vit-tiny", train={"global_batch": 8}) as r:
                        for step in steps:
                            r.step(loss=1, **step)
                self.assertIn(words, e.exception.message)
                self.assertEqual(e.exception.code, 2)
        with self.recorded() as r:
            r.step(loss=1)
        with self.assertRaises(isobar.Error) as e:
            with self.recorded():
                self.fail("another run's folder was taken")
        self.assertIn("run.out", e.exception.message)
        with self.assertRaises(isobar.Error) as e:
            with isobar.run(self.folder / "run2", net="vit-tiny", layout={"td": 2}):
                self.fail("an unknown key was taken")
        self.assertIn("layout.t", e.exception.message)

    def test_lines_that_are_no_records_are_refused(self):
        for line, words in (('{"event": "step", "step": 1, "los": 2}', "'los'"), ("nonsense", "no JSON"),
                            ('{"event": "step", "loss": 2}', "'step'"), ('{"event": "stop"}', "stop"),
                            ('{"event": "step", "step": 1, "samples_per_s": 4}', "samples_per_s"),
                            ('{"event": "run_end", "status": "failed", "class": "sad"}', "sad"),
                            ('{"event": "step", "step": "one"}', "whole number")):  # fmt: skip
            with self.subTest(line):
                done = subprocess.run(
                    [isobar.program(), "record", SOURCE / "configs/models/vit-tiny.yaml", "--set", f"run.out={self.folder / 'a'}"],
                    input=line + "\n", capture_output=True, text=True)  # fmt: skip
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("standard input:1", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--isobar", required=True)
    known, rest = arguments.parse_known_args()
    os.environ["ISOBAR_PROGRAM"] = str(pathlib.Path(known.isobar).resolve())
    print(f"ISOBAR_TEST_SEED={SEED}")
    unittest.main(argv=[sys.argv[0], *rest])
