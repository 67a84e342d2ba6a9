"""Times the same training step in PyTorch and in Isobar, alternating on the same cores, and prints the ratio.

    bench/peers/run.sh                                    # the usual two nets, fp32 and bf16, all cores
    bench/peers/run.sh --threads 1 --amp bf16 configs/models/vit-small.yaml
    bench/peers/run.sh --threads 2 configs/models/regional-gnn.yaml --set policy.recompute=selective

Isobar runs the config on noise made in memory; PyTorch gets the same net, batch, optimizer, precision and thread count
(bench/peers/vit.py), in eager mode and through torch.compile, and the faster of the two is the peer. Its allocator is
configured to keep memory (PEER_ENV), which makes its bf16 step faster. The two then alternate: A B A B ... Times are
of steps after warm-up, without waiting for data; peak memory is the process's resident set at its largest. Results: bench/results/peers-<cpu>.json.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = {"configs/models/vit-small.yaml": 4, "configs/models/vit-384.yaml": 1}  # config: global batch
WARMUP = 2  # steps; equal to Isobar's warm-up
PEER_ENV = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8000000000", "MALLOC_TOP_PAD_": "67108864"}


def run_command(command, cores, threads, extra_env=None):
    """Runs on the given cores; returns stdout, and peak memory in bytes. A failure ends the comparison with the
    command's output."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads)} | (extra_env or {})
    pin = lambda: os.sched_setaffinity(0, cores)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, env=env, preexec_fn=pin, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = out.read()
        if child.returncode != 0:
            sys.exit(f"failed ({child.returncode}): {' '.join(map(str, command))}\n{text[-2000:]}{err.read()[-4000:]}")
    return text, used.ru_maxrss * 1024


def run_isobar(args, config, batch, amp, threads, cores, steps):
    """Returns (seconds of each timed step, the run_start event, peak memory in bytes)."""
    with tempfile.TemporaryDirectory() as out:
        sets = [f"run.out={out}/run", f"run.threads={threads}", f"policy.amp={amp}", f"train.global_batch={batch}",
                f"train.steps={steps + WARMUP}", "policy.micro_batch=0", "data.train=", "data.valid=", "data.workers=0"]
        sets += args.set
        command = [str(args.isobar), "train", str(config), "--json"]
        for item in sets:
            command += ["--set", item]
        _, peak = run_command(command, cores, threads)
        events = [json.loads(line) for line in (pathlib.Path(out) / "run" / "result.jsonl").read_text().splitlines()]
    steps_seen = [e for e in events if e["event"] == "step"][WARMUP:]
    if len(steps_seen) != steps:
        sys.exit(f"isobar logged {len(steps_seen)} timed steps of {steps} for {config}")
    return [e["seconds"] - e["data_wait_s"] for e in steps_seen], next(e for e in events if e["event"] == "run_start"), peak


def torch_net(net):
    """The command that times a net of this kind, without common arguments."""
    if net["kind"] == "regional-gnn":
        return [ROOT / "bench/peers/regional_gnn.py", json.dumps(net)]
    if net["kind"] == "aurora":
        return [ROOT / "bench/peers/aurora_model.py", json.dumps(net)]
    if net["kind"] in ("gpt", "llama"):
        return [ROOT / "bench/peers/language.py", json.dumps(net)]
    if net["kind"] != "vit":
        sys.exit(f"no peer times a net of the kind {net['kind']} (there is vit, regional-gnn, aurora, gpt and llama)")
    return [ROOT / "bench/peers/vit.py", "--embed-dim", net["embed_dim"], "--depth", net["depth"], "--heads", net["num_heads"],
            "--patch", net["patch_size"], "--mlp-ratio", net["mlp_ratio"], "--img", net["img_height"], net["img_width"],
            "--channels", net["in_channels"], net["out_channels"]]


def run_torch(args, spec, amp, threads, cores, steps, compiled):
    """Returns the peer's result for the net and optimizer of an Isobar run."""
    command = [args.python, *torch_net(spec["net"]), "--batch", spec["train"]["global_batch"], "--optimizer",
               spec["train"]["optimizer"], "--amp", amp, "--threads", threads, "--steps", steps,
               "--warmup", WARMUP] + (["--compile"] if compiled else [])
    text, peak = run_command(list(map(str, command)), cores, threads, PEER_ENV)
    return json.loads(text.splitlines()[-1]) | {"peak_bytes": peak}


def spread(seconds):
    """Median, 10th and 90th percentile, minimum."""
    ordered = sorted(seconds)
    at = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]
    return {"median": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9), "min": ordered[0], "steps": len(ordered)}


def compare(args, config, batch, amp, threads, cores):
    """One row of the table: probes both, then alternates `args.rounds` times."""
    name = f"{pathlib.Path(config).stem} batch {batch} {'fp32' if amp == 'none' else amp} {threads} threads"
    say = lambda text: print(f"   {name}: {text}", file=sys.stderr, flush=True)
    probe, start, peak = run_isobar(args, config, batch, amp, threads, cores, 2)
    spec = start["spec"]
    modes = {mode: run_torch(args, spec, amp, threads, cores, 3, mode == "compile") for mode in args.torch_modes}
    mode = min(modes, key=lambda m: min(modes[m]["seconds"]))
    say("probe: isobar %.3f s, %s" % (min(probe), ", ".join(f"torch {m} {min(r['seconds']):.3f} s" for m, r in modes.items())))
    if modes[mode]["parameters"] != start["parameters"]:
        sys.exit(f"{name}: {start['parameters']} parameters in Isobar, {modes[mode]['parameters']} in PyTorch")
    steps_of = lambda seconds: max(3, min(50, round(args.seconds / seconds)))
    isobar_steps, torch_steps = steps_of(min(probe)), steps_of(min(modes[mode]["seconds"]))
    isobar, torch, rounds = [], [], []
    for i in range(args.rounds):
        b = run_torch(args, spec, amp, threads, cores, torch_steps, mode == "compile")["seconds"]
        a, *_ = run_isobar(args, config, batch, amp, threads, cores, isobar_steps)
        isobar, torch = isobar + a, torch + b
        rounds.append(statistics.median(b) / statistics.median(a))
        say(f"round {i + 1}/{args.rounds}: isobar {statistics.median(a):.3f} s, torch {statistics.median(b):.3f} s")
    a, b = spread(isobar), spread(torch)
    return {"config": config, "global_batch": batch, "amp": amp, "threads": threads, "parameters": start["parameters"],
            "set": args.set, "isobar": a | {"peak_bytes": peak},
            "torch": b | {"mode": mode, "peak_bytes": modes[mode]["peak_bytes"]}, "torch_probe_min": {m: min(r["seconds"]) for m, r in modes.items()},
            "ratio": b["median"] / a["median"], "ratio_of_min": b["min"] / a["min"],
            "ratio_by_round": rounds}, start["provenance"], modes[mode]


def print_table(rows):
    print(f"\n{'net':<12}{'batch':>6}{'precision':>11}{'threads':>9}{'isobar s':>11}{'p10-p90':>16}{'torch s':>10}"
          f"{'p10-p90':>16}  {'mode':<8}{'ratio':>6}  {'by round':<12}"
          f"{'peak GB':>14}")
    for r in rows:
        a, b = r["isobar"], r["torch"]
        print(f"{pathlib.Path(r['config']).stem:<12}{r['global_batch']:>6}{'fp32' if r['amp'] == 'none' else r['amp']:>11}"
              f"{r['threads']:>9}{a['median']:>11.4f}{a['p10']:>9.3f}-{a['p90']:.3f}{b['median']:>11.4f}"
              f"{b['p10']:>9.3f}-{b['p90']:.3f}  {b['mode']:<8}{r['ratio']:>6.2f}"
              f"  {min(r['ratio_by_round']):.2f}-{max(r['ratio_by_round']):.2f}"
              f"  {r['isobar']['peak_bytes'] / 1e9:>8.2f} / {r['torch']['peak_bytes'] / 1e9:.2f}")
    print("ratio: torch's median step over Isobar's; above 1 Isobar is faster")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("configs", nargs="*", default=list(CASES), help="model configs (default: %(default)s)")
    ap.add_argument("--amp", nargs="+", default=["none", "bf16"], choices=["none", "bf16"])
    ap.add_argument("--threads", type=int, nargs="+", default=[len(os.sched_getaffinity(0))])
    ap.add_argument("--set", action="append", default=[], help="a key of Isobar's run: policy.recompute=selective (repeatable)")
    ap.add_argument("--batch", type=int, help="global batch (default: of the usual nets; else 1)")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=15, help="about so long per side and round")
    ap.add_argument("--torch-modes", nargs="+", default=["eager", "compile"], choices=["eager", "compile"])
    ap.add_argument("--isobar", type=pathlib.Path, default=ROOT / "build" / "isobar")
    ap.add_argument("--python", default=sys.executable, help="the Python that has torch")
    ap.add_argument("-o", "--output", type=pathlib.Path)
    args = ap.parse_args()

    rows, provenance, torch = [], {}, {}
    for config in args.configs:
        for threads in args.threads:
            cores = set(sorted(os.sched_getaffinity(0))[:threads])
            if len(cores) < threads:
                ap.error(f"--threads {threads}: this process may use {len(cores)} cores")
            for amp in args.amp:
                batch = args.batch or CASES.get(config, 1)
                row, provenance, torch = compare(args, config, batch, amp, threads, cores)
                rows.append(row)
    print_table(rows)
    slug = re.sub(r"[^a-z0-9]+", "-", f"{provenance['cpu']} {os.cpu_count()} cores".lower()).strip("-")
    output = args.output or ROOT / "bench" / "results" / f"peers-{slug}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    provenance = {k: v for k, v in provenance.items() if k not in ("host", "env")}
    output.write_text(json.dumps({"schema": 1, "time_utc": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                                  "cpu": provenance["cpu"], "cores": os.cpu_count(), "isobar": provenance,
                                  "torch": {"version": torch["torch"], "cpu_capability": torch["cpu_capability"],
                                            "env": PEER_ENV}, "rows": rows}, indent=1) + "\n")
    print(f"written to {output}")


if __name__ == "__main__":
    main()
