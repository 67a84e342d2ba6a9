"""Parts of tests/gpu.sh that compare predictions with measurements."""

import json
import shutil
import statistics

from session import MODELS, ROOT, Skip, Stopped, Trouble, aim, json_of

MACHINES = ROOT / "configs" / "machines"
CALIBRATED_ERROR, FITTED_ERROR = 0.05, 0.03  # targets; missing one is reported and is no failure


def predict(s, found):
    """calibrate this machine, then predicted against measured arena and step"""
    s.needs("libcublasLt.so.13")
    machine = s.scratch / "machine.yaml"
    if not s.measured:
        raise Skip("the part steps measured nothing to compare with")
    if s.rehearse:  # spec sheets, because calibration takes a minute
        machine = MACHINES / ("dgx-h100.yaml" if s.device() == "cuda" else "example-2core.yaml")
    else:
        code, text = s.run([s.program("isobar"), "calibrate", "-o", machine, "--device", "cuda"])
        if code != 0:
            raise Trouble(f"isobar calibrate ended with {code}: {text.strip()[-400:]}")
        s.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(machine, s.out / "gpu-machine.yaml")
    s.machine = MACHINES / "example-2core.yaml" if s.rehearse else machine  # a rehearsal sweeps on the CPU
    bad = []
    if not s.rehearse:
        timings = [b for b in json.loads(machine.with_suffix(".benchmarks.json").read_text())["benchmarks"] if b.get("run_type", "iteration") == "iteration"]
        peaks = [b for b in timings if b["name"].startswith("peak/bf16")]
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
        clocks = [b for b in timings if "clock_mhz" in b]
        if clocks:
            mhz, watts = ([b.get(k, 0) for b in clocks] for k in ("clock_mhz", "watts"))
            settled = sum("settled" in b for b in clocks)
            s.row("calibrated at", f"{min(mhz):.0f} to {max(mhz):.0f} MHz", f"{min(watts):.0f} to {max(watts):.0f} W; {settled} of {len(clocks)} timings at a settled clock")
        else:
            s.row("calibrated at", "unknown", "the clock could not be read")
        rate = max(b["flops"] / (b["real_time"] * unit[b["time_unit"]]) for b in peaks)
        found["product_bf16_flops_per_s"] = rate
        shares = ", ".join(f"{n} {100 * m['flops_per_s'] / rate:.1f} %" for n, m in s.measured.items())
        s.row("large product by cuBLASLt", f"{rate * 1e-12:.0f} TFLOP/s", f"8192^3 bf16; of it: {shares}")
    for name, measured in s.measured.items():
        command = [s.program("isobar"), "predict", MODELS / f"{name}.yaml", "--machine", machine, "--json"]
        for item in [*measured["sets"], f"run.device={s.device()}", "data.train="]:
            command += ["--set", item]
        code, text = s.run(command)
        if code != 0:
            raise Trouble(f"isobar predict {name} ended with {code}: {text.strip()[-400:]}")
        p = json_of(text)
        step = p["step_s"]
        plan_command = [s.program("isobar"), "plan", MODELS / f"{name}.yaml", "--totals", "--json"] + command[command.index("--set"):]
        code, text = s.run(plan_command)
        if code != 0:
            raise Trouble(f"isobar plan {name} ended with {code}: {text.strip()[-400:]}")
        arena = json_of(text)["memory"]["arena"]
        found[name] = {"predicted": p, "measured_step_s": measured["step_s"], "measured_arena": measured["arena"]}
        s.row(f"{name} arena predicted", f"{arena} B", "equal" if arena == measured["arena"] else f"measured {measured['arena']} B")
        s.row(f"{name} step predicted", f"{step * 1e3:.2f} ms", f"{100 * (step / measured['step_s'] - 1):+.1f} % off")
        if arena != measured["arena"]:
            bad.append(name)
    if bad:
        raise Trouble(f"the arena is not what was predicted: {', '.join(bad)}")


def configurations(s, found):
    """the predictor over 30 configurations: by calibration alone, and fitted to ten of them"""
    s.needs("libcublasLt.so.13")
    if not s.machine:
        raise Skip("the part predict calibrated no machine")
    axes = {"net.embed_dim": [256, 384, 512, 768, 1024], "train.global_batch": [2, 4, 8], "policy.recompute": ["none", "full"]}
    fixed = {"data.train": "", "data.valid": "", "policy.amp": "bf16", "net.depth": 6, "run.device": "cuda"}
    if s.rehearse:
        axes, fixed = {"net.embed_dim": [32, 64], "train.global_batch": [2, 4]}, {"data.train": "", "data.valid": ""}
    base = MODELS / ("vit-tiny.yaml" if s.rehearse else "vit-384.yaml")
    spec = s.scratch / "configurations.yaml"  # JSON is valid YAML
    spec.write_text(json.dumps({"base": str(base), "set": fixed, "steps": 12, "warmup": 4, "axes": axes, "timeout_s": 60, "hang_s": 30}))
    results = s.logs / "configurations"  # outlives a stop, and can be fitted elsewhere
    shutil.rmtree(results, ignore_errors=True)
    try:
        code, text = s.run([s.program("isobar"), "sweep", spec, "--results", results])
        if code != 0:
            raise Trouble(f"isobar sweep ended with {code}: {text.strip()[-400:]}")
    except Stopped as e:  # what there is counts
        s.row("configurations", "stopped", str(e)[:100])
    wanted = 1
    for values in axes.values():
        wanted *= len(values)
    errors = []
    found["configurations"] = []
    for trial in sorted(results.glob("trials/*")):
        events = [json.loads(line) for line in (trial / "result.jsonl").read_text().splitlines()] if (trial / "result.jsonl").exists() else []
        if not events or events[-1]["event"] != "run_end":
            continue
        measured = events[-1]["step_s"]["median"]
        code, text = s.run([s.program("isobar"), "predict", trial / "spec.json", "--machine", s.machine, "--json"])
        if code != 0:
            raise Trouble(f"isobar predict {trial.name} ended with {code}: {text.strip()[-400:]}")
        predicted = json_of(text)["step_s"]
        errors.append(abs(predicted / measured - 1))
        found["configurations"].append({"id": trial.name, "measured_s": measured, "predicted_s": predicted})
        s.save()
    if not errors:
        raise Trouble("no configuration was run to its end")
    median = statistics.median(errors)
    found |= {"median_error": median}
    s.row(f"{len(errors)} of {wanted} configurations", f"{100 * median:.1f} %", f"median error by calibration alone; {aim(median <= CALIBRATED_ERROR, '5 %')}")
    fitted = s.scratch / "fitted.yaml"
    code, text = s.run([s.program("isobar"), "fit", results, "--machine", s.machine, "-o", fitted, "--fraction", f"{10 / wanted if wanted > 10 else 0.5:.4f}", "--json"])
    if code == 2:  # it says what it does not accept
        s.row("fitted to ten of them", "skipped", text.strip()[-200:])
        return
    if code != 0:
        raise Trouble(f"isobar fit ended with {code}: {text.strip()[-400:]}")
    held_out = found["held_out"] = json_of(text)["held_out"]
    s.row("fitted to ten of them", f"{100 * held_out['median_error']:.1f} %",
                 f"median error of the other {held_out['runs']}; {aim(held_out['median_error'] <= FITTED_ERROR, '3 %')}")
