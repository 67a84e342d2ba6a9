"""One real training through PBS jobs that are too short for it (pbs.py plays the PBS): it goes on from its last
checkpoint in as many as it takes, and ends with the weights of one run, to the last bit."""
import json, os, pathlib, signal, subprocess, sys, tempfile, time

import pbs

STEPS, EVERY, JOB_S = 400, 10, 34
TRAINING = ["configs/models/mlp-emulator.yaml", "--set", f"train.steps={STEPS}", "--set", "run.threads=1"]


def events(run):
    return [json.loads(line) for line in open(run / "result.jsonl")]


def losses(run):
    return {e["step"]: e["loss"] for e in events(run) if e["event"] == "step"}


def machine_in(home, slow_disk):
    # Every checkpoint takes a second: 40 of them are 40 s. A job of 34 s signals its ranks 20 s before its
    # end (10 s for a step and a checkpoint, and 10 s to end in), so it writes at most 16 of them: there are
    # at least three jobs, however fast the machine is.
    root = pathlib.Path(__file__).resolve().parents[2]
    machine = home / "machine.yaml"
    machine.write_text(json.dumps({"inherits": str(root / "configs/machines/example-2core.yaml"), "cluster": {
        "scheduler": "pbs", "start": "pals", "cores_per_node": 2, "queue": "debug", "poll_s": 0.2, "fence_s": 2,
        "start_s": 1, "max_time_s": JOB_S, "job_time_s": JOB_S, "retries": 1,
        "environment": {"OMP_NUM_THREADS": 1, "LD_PRELOAD": slow_disk,
                        "ISOBAR_SLOW_DISK": "fsync state.json 1 1000000 *"}}}))
    return machine


def test_damaged(isobar, slow_disk, check):
    """The last checkpoint of a job is damaged before the next one begins: that goes on from the one before, by itself."""
    root = pathlib.Path(__file__).resolve().parents[2]
    steps = 200
    with tempfile.TemporaryDirectory(prefix="isobar-pbs-damaged-") as folder:
        home = pathlib.Path(folder)
        env = pbs.install(home)
        results = home / "chain"
        training = ["configs/models/mlp-emulator.yaml", "--set", f"train.steps={steps}", "--set", "run.threads=1"]
        command = [isobar, "train", *training, "--set", f"train.checkpoint_every={EVERY}", "--launcher", "pbs", "--machine",
                   str(machine_in(home, slow_disk)), "--results", str(results), "--json"]
        subprocess.run([*command, "--no-wait"], env=env, cwd=root, capture_output=True, text=True, timeout=120)
        waited = time.time()
        while not list(results.glob("trials/*/status.json")) and time.time() - waited < 300:
            time.sleep(0.2)
        run, = results.glob("trials/*")
        before, last = sorted(run.glob("checkpoints/step-*"))[-2:]  # a job whose time ends writes one more
        check(int(last.name[5:]) < steps, f"one job was enough: nothing is tested, {last}")
        weights = last / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-1] ^= 4
        weights.write_bytes(data)
        done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=900)
        check(done.returncode == 0, f"the chain after the damage: {done.returncode}\n{done.stdout}{done.stderr}")
        aside = last.with_name(last.name + ".damaged")
        check((aside / "model.safetensors").read_bytes() == bytes(data), f"{aside} is not what was damaged")
        resumed = [e["step"] for e in events(run) if e["event"] == "resume"]
        check(resumed and resumed[0] == int(before.name[5:]), f"went on from {resumed}, after damage to {last.name}")
        whole = home / "whole"
        once = subprocess.run([isobar, "train", *training, "--set", f"train.checkpoint_every={steps}", "--set",
                               f"run.out={whole}"], cwd=root, capture_output=True, text=True, timeout=600)
        check(once.returncode == 0, f"in one go: {once.stderr}")
        end = f"checkpoints/step-{steps:08}/model.safetensors"
        check((run / end).read_bytes() == (whole / end).read_bytes(), "the weights are not those of one run")
        print(f"a chain whose {last.name} was damaged between two jobs: bit for bit as in one go")


def test(isobar, slow_disk, check):
    root = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="isobar-pbs-chain-") as folder:
        home = pathlib.Path(folder)
        env = pbs.install(home)
        machine = machine_in(home, slow_disk)
        results = home / "chain"
        command = [isobar, "train", *TRAINING, "--set", f"train.checkpoint_every={EVERY}", "--launcher", "pbs",
                   "--machine", str(machine), "--results", str(results), "--json"]
        # Its submitter is killed while the first job trains; the command given again takes the job up.
        first = subprocess.Popen(command, env=env, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        waited = time.time()
        while not list(results.glob("trials/*/checkpoints/step-*")) and time.time() - waited < 120 and first.poll() is None:
            time.sleep(0.1)
        first.kill()
        check(first.wait() == -signal.SIGKILL, f"the first submitter ended by itself: {first.stderr.read()}")
        done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=900)
        if os.environ.get("ISOBAR_KEEP"): subprocess.run(["cp", "-r", str(home), os.environ["ISOBAR_KEEP"] + "-chain"])
        if done.returncode != 0: sys.exit(f"train --launcher pbs: {done.returncode}\n{done.stdout}{done.stderr}")
        summary = json.loads(done.stdout)
        trial, = summary["trials"]
        run = results / "trials" / trial["id"]
        jobs = pbs.jobs_of(home)
        ends = [json.loads((run / f"attempt-{n}" / "status.json").read_text()) for n in range(1, trial["attempt"])]
        check(trial["class"] == "ok" and len(jobs) >= 3 and trial["attempt"] == len(jobs),
              f"{trial['class']} after {trial['attempt']} starts in {len(jobs)} jobs, not ok in three or more")
        check(all(e["class"] == "timeout" and e["came_further"] and "goes on from step" in e["message"] for e in ends),
              f"how the jobs before the last ended: {ends}")
        # The ranks were signalled in time: PBS ended no job, and no step was computed twice.
        check({j["Exit_status"] for j in jobs} == {0}, f"exits of the jobs: {[j['Exit_status'] for j in jobs]}")
        steps = [e["step"] for e in events(run) if e["event"] == "step"]
        check(steps == list(range(1, STEPS + 1)), f"{len(steps)} steps were made, of {STEPS}")
        words = "".join(f.read_text() for f in results.glob("jobs/*/out"))
        check("(measured)" in words and "(predicted)" in words, f"where the lead comes from: {words}")
        books = summary["accounting"]
        check(books["jobs"] == len(jobs) and books["node_s"] == pbs.node_seconds(home),
              f"accounting: {books}, and the books say {pbs.node_seconds(home)} node seconds of {len(jobs)} jobs")
        # Given once more there is nothing to do; other settings are another training.
        again = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=120)
        check(again.returncode == 0 and len(pbs.jobs_of(home)) == len(jobs), f"given again: {again.returncode} {again.stderr}")
        other = subprocess.run([*command, "--set", "train.lr=1"], env=env, cwd=root, capture_output=True, text=True, timeout=120)
        check(other.returncode == 2 and "--results" in other.stderr, f"another training: {other.returncode} {other.stderr}")
        whole = home / "whole"
        once = subprocess.run([isobar, "train", *TRAINING, "--set", f"train.checkpoint_every={STEPS}", "--set", f"run.out={whole}"],
                              cwd=root, capture_output=True, text=True, timeout=600)
        check(once.returncode == 0, f"in one go: {once.stderr}")
        check(losses(run) == losses(whole), "losses are not those of one run")
        for file in ("model.safetensors", "optimizer.safetensors"):
            last = f"checkpoints/step-{STEPS:08}/{file}"
            check((run / last).read_bytes() == (whole / last).read_bytes(), f"{file} is not that of one run")
        print(f"one training through {len(jobs)} PBS jobs of {JOB_S} s, cut after steps "
              f"{[e['last_step'] for e in ends]}: bit for bit as in one go; {books['node_s']} node seconds")
