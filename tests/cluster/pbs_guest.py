"""Somebody's program (run.command) through PBS jobs (pbs.py plays the PBS): started once on each of one or two nodes, which
meet by the words of its command; a job's time limit cuts it off, and the next job takes it up from its own checkpoint."""
import json, pathlib, re, subprocess, sys, tempfile

import pbs

STEPS = 90


def test(isobar, check):
    root = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="isobar-pbs-guest-") as folder:
        home = pathlib.Path(folder)
        env = pbs.install(home)

        def sweep(name, axes, ms, steps, job_s, more):
            machine = home / f"{name}.machine.yaml"
            machine.write_text(json.dumps({"inherits": str(root / "configs/machines/example-2core.yaml"), "cluster": {
                "scheduler": "pbs", "start": "pals", "ranks_per_node": 2, "cores_per_node": 2, "queue": "debug", "poll_s": 0.2,
                "fence_s": 2, "start_s": 1, "max_time_s": job_s, "job_time_s": job_s, "retries": 1}}))
            command = (f"{sys.executable} {root}/tests/slurm/guest.py --nodes {{nodes}} --node-rank {{node_rank}} --addr localhost"
                       f" --port {{master_port}} --ranks-here {{ranks_on_host}} --steps {{train.steps}} --folder {{out}} --ms {ms}")
            if more: command += " {resume}"
            (home / f"{name}.yaml").write_text(json.dumps({
                "base": str(root / "configs/models/vit-tiny.yaml"), "steps": steps, "grace_s": 1,
                "set": {"run.threads": 1, "run.command": command, "run.reads": "step {step} loss {loss} in {ms} ms", **more},
                "axes": axes, **({} if more else {"timeout_s": 40})}))
            done = subprocess.run([isobar, "sweep", str(home / f"{name}.yaml"), "--results", str(home / name), "--launcher", "pbs",
                                   "--machine", str(machine), "--json"], env=env, cwd=root, capture_output=True, text=True, timeout=600)
            check(done.returncode == 0, f"{name}: {done.returncode}\n{done.stdout}{done.stderr}")
            return json.loads(done.stdout)["trials"] if done.returncode == 0 else []

        for t in sweep("guests", {"gpus": [1, 2, 3, 4]}, 5, 12, 600, {}):
            run = home / "guests/trials" / t["id"]
            said = "".join(f.read_text() for f in sorted(run.glob("output*.txt")))
            nodes = 1 + (t["ranks"] > 2)
            check(t["class"] == "ok", f"a guest of {t['ranks']} ranks: {t['class']} ({t['message']})")
            check(sorted(re.findall(r"^node (\d) of (\d)", said, re.M)) == [(str(n), str(nodes)) for n in range(nodes)], f"its nodes: {said}")
            check(f" on {t['ranks']} ranks" in said, f"{t['ranks']} ranks: {said}")
        for t in sweep("chain", {"gpus": [4]}, 400, STEPS, 34, {"run.resume": "--resume {checkpoint}", "run.checkpoint": "step-*.ckpt"}):
            run = home / "chain/trials" / t["id"]
            events = [json.loads(line) for line in open(run / "result.jsonl")]
            resumed = [e["step"] for e in events if e["event"] == "resume"]
            check(t["class"] == "ok" and t["attempt"] >= 2 and len(resumed) == t["attempt"] - 1 and resumed == sorted(set(resumed)),
                  f"the chain of a guest: {t}, resumed at {resumed}")
            check({e["step"] for e in events if e["event"] == "step"} == set(range(1, STEPS + 1)), "a step was left out")
            print(f"a program of {t['ranks']} ranks through {t['attempt']} PBS jobs, taken up at steps {resumed}")
