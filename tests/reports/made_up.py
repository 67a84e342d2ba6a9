"""Results of sweeps that never ran: real trials of a real matrix (`isobar sweep --dry-run`), with made-up times.

    write(isobar, folder, runs=72, seed=1)              # axes=LAYOUTS: of many layouts

Two ranks are faster than one, bf16 than fp32, larger micro-batches a little; steps scatter by 4 % and runs by 2 %.
Every 36th trial failed. The figures that a test expects are in the returned list: {id, axes, ok, step_s}.
"""

import json
import math
import pathlib
import random
import subprocess

STEPS = 26
OPS = [("data/fetch", "fetch", 0, 4e6), ("patch_embed/forward", "gemm", 2e8, 2e6), ("optimizer/adam", "adam", 0, 2e7)]
for block in range(4):
    for name, kind, flops, size in (
        ("attn/qkv/forward", "gemm", 3e8, 4e6),
        ("attn/core/forward", "attention", 2e8, 3e6),
        ("attn/core/backward", "attention_backward", 5e8, 6e6),
        ("mlp/fc1/forward", "gemm", 4e8, 5e6),
        ("mlp/gelu/forward", "gelu", 0, 8e6),
        ("mlp/fc1/backward_weight", "gemm", 4e8, 5e6),
    ):
        OPS.append((f"block{block:02d}/{name}", kind, flops, size))


def part_of(path):
    first = path.split("/")[0]
    return {"kind": "block", "path": first} if first.startswith("block") else {}


AXES = "gpus: [1, 2], policy.amp: [none, bf16], data.workers: [0, 1, 2], policy.micro_batch: [1, 2, 4]"
LAYOUTS = (
    "layout.dp: [1, 2], layout.tp: [1, 2], layout.cp: [1, 2], layout.pp: [1, 2], policy.zero: [0, 1], "
    "policy.cp_kind: [allgather, ring], policy.amp: [none, bf16]"
)


def matrix(isobar, folder, runs, axes):
    """Real trials: id, axes and full specification each."""
    base = pathlib.Path(__file__).resolve().parents[2] / "configs/models/vit-demo.yaml"
    sweep = folder / "sweep.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    sweep.write_text(
        f"base: {base}\nset: {{train.global_batch: 8, run.threads: 1, data.train: '', data.valid: '', data.means: '', "
        f"data.stds: ''}}\nsteps: {STEPS}\nwarmup: 2\naxes: {{{axes}}}\nrepetitions: {math.ceil(runs / 36)}\n"
        "constraints: {max_ranks: 2}\n"
    )
    out = subprocess.run(
        [isobar, "sweep", sweep, "--dry-run", "--json"], capture_output=True, text=True, check=True
    ).stdout
    return json.loads(out)["trials"][:runs]


def write(isobar, folder, runs, seed, factor=1.0, axes=AXES):
    rng = random.Random(seed)
    folder = pathlib.Path(folder)
    made, predicted = [], []
    for number, trial in enumerate(matrix(isobar, folder, runs, axes)):
        spec, axes = trial["spec"], trial["axes"]
        ranks = math.prod(spec["layout"][way] for way in ("dp", "tp", "cp", "pp"))
        step = 0.04 * factor / ranks**0.8 * (0.7 if spec["policy"]["amp"] == "bf16" else 1)
        step *= (1.15 if spec["data"]["workers"] == 0 else 1) * max(1, spec["policy"]["micro_batch"]) ** -0.05
        guess = step * rng.lognormvariate(0, 0.06)
        step *= rng.lognormvariate(0, 0.02)
        ok = number % 36 != 35
        run = folder / "trials" / trial["id"]
        run.mkdir(parents=True)
        seconds = [step * rng.lognormvariate(0, 0.04) for _ in range(STEPS)]
        timed = sorted(seconds[2:])
        events = [
            {
                "event": "run_start",
                "schema": 1,
                "time_utc": "2026-01-02T03:04:05Z",
                "spec": spec,
                "ranks": ranks,
                "threads": 1,
                "parameters": 875392,
                "memory": {
                    "arena": 25648320,
                    "by_category": {"params": 3500000, "grads": 3500000, "adam": 7000000, "saved": 9000000 // ranks},
                },
                "provenance": {"commit": "0123abc", "host": "made-up", "cpu": "Some CPU"},
            }
        ]
        if ok:
            for i, s in enumerate(seconds):
                events.append({"event": "step", "step": i + 1, "loss": 1 / (i + 1), "seconds": s, "rss_bytes": 60_000_000})
            total = sum(flops / 2e11 + size / 2e10 for _, _, flops, size in OPS)
            ops = [
                {"path": p, "part": part_of(p), "kind": k, "lane": "compute", "count": STEPS, "flops": f * STEPS, "bytes": b * STEPS,
                 "seconds": STEPS * step * (f / 2e11 + b / 2e10) / total}
                for p, k, f, b in OPS
            ]  # fmt: skip
            median = (timed[11] + timed[12]) / 2
            events.append(
                {
                    "event": "run_end",
                    "status": "ok",
                    "steps": STEPS,
                    "step_s": {"median": median, "p10": timed[2], "p90": timed[21], "min": timed[0]},
                    "samples_per_s": 8 / median,
                    "peak_rss_bytes": int(60e6 + 20e6 / ranks + 12e6 * rng.random()),
                    "ops": ops,
                }
            )
            terms = {"matrix products": 0.6, "attention": 0.25, "exposed communication": 0.1, "optimizer": 0.05}
            predicted.append(
                {
                    "id": trial["id"],
                    "predicted_s": guess,
                    "lo_s": guess * 0.92,
                    "hi_s": guess * 1.09,
                    "in_fit": number % 2 == 0,
                    "terms": {name: guess * share for name, share in terms.items()},
                }
            )
        (run / "result.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
        (run / "trial.json").write_text(
            json.dumps({"id": trial["id"], "repetition": trial["repetition"], "axes": axes, "warmup": 2, "spec": spec})
        )
        status = {"class": "ok", "message": ""} if ok else {"class": "oom_host", "message": "ran out of host memory"}
        (run / "status.json").write_text(json.dumps({**status, "attempt": 1, "wall_s": 2.0}))
        made.append({"id": trial["id"], "name": trial["name"], "axes": axes, "ok": ok, "step_s": step})
    (folder / "holdout.json").write_text(json.dumps({"machine": "made-up", "runs": predicted}))
    return made
