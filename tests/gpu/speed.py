"""Parts of tests/gpu.sh that measure speed: our step, what the chip holds at most, PyTorch's step, tracing."""

import importlib.util
import json
import os
import statistics
import sys

from session import MODELS, ROOT, Trouble, aim, torch_version, train

# Targets of issue and README, reported beside the figure with whether they are met. A figure that misses is
# no failure of this script.
FASTER_THAN_TORCH, SHARE_OF_PRODUCT = 1.15, 0.60
CASES = {"vit-1536": 4, "vit-384": 16}  # config: batch that fits into 80 GB with room, and fills the chip
# Variants of the run with graphs: without graphs; without fused products; GELU in cuBLASLt's form (tanh),
# with all fusion and algorithms by timing.
VARIANTS = {"without graphs": ["run.cuda_graphs=false"], "without fusion": ["run.fuse=false"],
            "timed, tanh GELU": ["run.gemm_choice=timed", "net.gelu=tanh"]}
MOST_BESIDE = 512 << 20  # bytes on the device that no line accounts for


def nccl_rows(name, run):
    """What NCCL takes of the device, beside what a prediction counts for it, and what it leaves of the chip to products."""
    last = [e["gpu"] for e in run["events"] if e["event"] == "device"][-1]
    if last.get("product_sms"):
        yield f"{name} products beside transfers", f"{last['product_sms']} SMs", "that cuBLASLt's products are chosen for (24 channels, or NCCL_MAX_CTAS)"
    if not last.get("nccl"):
        return
    told = f"planned {last['nccl_planned_bytes'] / 2**20:.0f}; its communicators alone {last['nccl_bytes'] / 2**20:.0f}; {last['mode']}"
    if after := last.get("in_use_after_first_step_bytes"):
        # Graphs and kernels loaded in the first step are included.
        took = after - last["in_use_before_nccl_bytes"] - last["landing_bytes"]
        yield f"{name} NCCL {last['nccl']} memory", f"{took / 2**20:.0f} MiB", told
    else:
        yield f"{name} NCCL {last['nccl']} memory", f"{last['nccl_bytes'] / 2**20:.0f} MiB", told


def memory_row(name, run):
    """The arena as planned, and what the device holds after the last step beside it: named constants and a rest."""
    events = [e["gpu"] for e in run["events"] if e["event"] == "device"]
    planned, first, last = run["start"]["memory"]["arena"], events[0], events[-1]
    if first["arena_bytes"] != planned:
        raise Trouble(f"{name}: the arena on the device has {first['arena_bytes']} bytes, the plan says {planned}")
    constants = {k: first.get(k, 0) for k in ("context_bytes", "library_bytes", "nccl_bytes", "landing_bytes")}
    rest = last["in_use_bytes"] - planned - sum(constants.values())  # graphs, kernels that were loaded late
    told = ", ".join(f"{k.removesuffix('_bytes')} {v / 2**20:.0f}" for k, v in constants.items() if v)
    return (f"{name} arena", f"{planned / 2**20:.0f} MiB", f"as planned to the byte; beside it {told}, later {rest / 2**20:+.0f} MiB"), rest


def cases_of(s):
    return {"vit-tiny": 8} if s.rehearse else CASES


def sets_of(s, batch):
    return [f"train.global_batch={batch}", "policy.micro_batch=0", "policy.amp=bf16", f"data.workers={0 if s.rehearse else 8}"]


def figures(run, batch):
    seconds = [e["seconds"] - e["data_wait_s"] for e in run["steps"][4:]]
    step = statistics.median(seconds)
    return {"step_s": step, "p10_s": statistics.quantiles(seconds, n=10)[0], "p90_s": statistics.quantiles(seconds, n=10)[-1],
            "samples_per_s": batch / step, "memory": run["start"]["memory"],
            "gpu": next((e["gpu"] for e in run["events"] if e["event"] == "device"), None)}


def steps(s, found):
    """Isobar's own step: ViT D=1536, then D=384, in bf16 with graphs; then variants"""
    s.needs("libcublasLt.so.13")

    def own(name, batch):
        run = train(s, MODELS / f"{name}.yaml", sets_of(s, batch), 12 if s.rehearse else 40)
        one = found[name] = {"batch": batch, "spec": run["start"]["spec"], "graphs": figures(run, batch)}
        ours = one["graphs"]
        ours["flops_per_s"] = flops = 3 * run["start"]["flops_forward_per_sample"] * ours["samples_per_s"]
        s.measured[name] = one | {"step_s": ours["step_s"], "arena": ours["memory"]["arena"], "flops_per_s": flops, "sets": sets_of(s, batch)}
        s.row(f"{name} bf16 batch {batch}", f"{ours['samples_per_s']:.1f} samples/s",
              f"{ours['step_s'] * 1e3:.2f} ms a step ({ours['p10_s'] * 1e3:.2f} to {ours['p90_s'] * 1e3:.2f}), {flops * 1e-12:.1f} model TFLOP/s")
        for use in (ours["gpu"] or {}).get("attention") or []:
            s.row(f"{name} attention", use["path"], f"{use['shape']}, {use['engine']}")
        if routines := run["end"].get("routines"):
            one["routines"] = routines
            longest = sorted(routines, key=lambda r: -r["seconds"])[:3]
            s.row(f"{name} routines", "", ", ".join(f"{r['name']} {1e3 * r['seconds'] / r['count']:.2f} ms" for r in longest))
        if ours["gpu"]:
            row, rest = memory_row(name, run)
            one["beside_arena_bytes"] = rest
            s.row(*row)
            for told in nccl_rows(name, run):
                s.row(*told)
            if rest > MOST_BESIDE:
                raise Trouble(f"{rest} bytes on the device that neither the plan nor a constant names")

    def variant(name, batch, kind):
        run = train(s, MODELS / f"{name}.yaml", [*sets_of(s, batch), *VARIANTS[kind]], 16)
        one, ours = figures(run, batch), found[name]["graphs"]
        found[name][kind] = one
        s.row(f"{name} {kind}", f"{one['samples_per_s']:.1f} samples/s",
              f"{(one['step_s'] - ours['step_s']) * 1e3:+.2f} ms a step; fused {(one['gpu'] or {}).get('fused')}")

    for name, batch in cases_of(s).items():
        s.case(name, 40, lambda name=name, batch=batch: own(name, batch))
    if s.rehearse:
        return
    for name, batch in CASES.items():
        for kind in VARIANTS if name in found else ():
            s.case(f"{name} {kind}", 20, lambda name=name, batch=batch, kind=kind: variant(name, batch, kind))


def ceiling(s, found):
    """large bf16 products without a break for 6 s: the rate that this chip holds, with clock and power"""
    if s.rehearse:
        s.row("sustained product", "skipped", "a rehearsal has no GPU")
        return
    code, text = s.run([s.program("gpu_ceiling"), "6"])
    if code != 0:
        raise Trouble(f"gpu_ceiling ended with {code}: {text.strip()[-300:]}")
    found |= json.loads(text[text.index("{"):])
    rate = s.ceiling = found["sustained_flops_per_s"]
    clocks = f"{found['clock_mhz']['median']} of {found['clock_mhz']['limit']} MHz, {found['watts']:.0f} W" if found.get("clock_mhz") else f"clocks not seen: {found.get('why')}"
    s.row("large product, sustained", f"{rate * 1e-12:.0f} TFLOP/s", f"8192^3 bf16 for {found['seconds']:.1f} s (first second {found['first_flops_per_s'] * 1e-12:.0f}); {clocks}")
    for name, one in s.measured.items():
        share = one["flops_per_s"] / rate
        told = f"; {aim(share >= SHARE_OF_PRODUCT, '60 %')}" if name == "vit-1536" else ""
        s.row(f"{name} share of it", f"{100 * share:.1f} %", f"model FLOP/s of the step{told}")


def torch_peer(s, spec, count, compiled):
    net, batch = spec["net"], spec["train"]["global_batch"]
    command = [sys.executable, ROOT / "bench/peers/vit.py", "--embed-dim", net["embed_dim"], "--depth", net["depth"], "--heads",
               net["num_heads"], "--patch", net["patch_size"], "--mlp-ratio", net["mlp_ratio"], "--img", net["img_height"],
               net["img_width"], "--channels", net["in_channels"], net["out_channels"], "--batch", batch, "--optimizer",
               spec["train"]["optimizer"], "--amp", spec["policy"]["amp"], "--steps", count, "--warmup", 5,
               "--device", "cpu" if s.rehearse else "cuda"] + (["--compile"] if compiled else [])
    code, text = s.run(command, LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", ""))
    if code != 0:
        raise Trouble(f"vit.py{' --compile' if compiled else ''}: {text.strip()[-400:]}")
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def peers(s, found):
    """PyTorch's step of the same nets, eager and compiled, with the attention that it ran"""
    if not (torch_version() if not s.rehearse else importlib.util.find_spec("torch")):
        s.row("PyTorch", "skipped", "this Python has no torch")
        return

    def peer(name, one, kind):
        r = torch_peer(s, one["spec"], 12 if s.rehearse else 30, kind == "compile")
        median = statistics.median(r["seconds"])
        found[f"{name} {kind}"] = {"step_s": median, "samples_per_s": one["batch"] / median} | {k: r[k] for k in r if k not in ("seconds", "pid")}
        s.row(f"{name} PyTorch {kind}", f"{one['batch'] / median:.1f} samples/s",
              f"Isobar is {median / one['step_s']:.2f} times as fast; {aim(median >= FASTER_THAN_TORCH * one['step_s'], '1.15')}; attention {r.get('attention', 'not told')}")

    for name, one in s.measured.items():
        for kind in ("eager", "compile"):
            s.case(f"{name} PyTorch {kind}", 40, lambda name=name, one=one, kind=kind: peer(name, one, kind))


def trace(s, found):
    """CUPTI: share of device time that belongs to ops, and what tracing costs, with graphs and without"""
    s.needs("libcupti.so.13", "libcublasLt.so.13")
    config = "vit-tiny" if s.rehearse else "vit-384"
    sets = ["train.global_batch=8", "policy.micro_batch=0", "policy.amp=bf16"]
    kinds = {"": []} if s.rehearse else {"graphs": [], "no graphs": ["run.cuda_graphs=false"]}
    for kind, more in kinds.items():
        plain, traced = [], []
        for i in range(2):  # alternating, so that drift affects both
            for times, file in ((plain, None), (traced, s.scratch / f"trace-{kind or 'cpu'}{i}.json")):
                run = train(s, MODELS / f"{config}.yaml", [*sets, *more], 24, file)
                times += [e["seconds"] - e["data_wait_s"] for e in run["steps"][-10:]]  # the traced ones, where they are
        share = next((e for e in run["events"] if e["event"] == "device_share"), None)
        overhead = statistics.median(traced) / statistics.median(plain) - 1
        found[kind or "cpu"] = {"overhead": overhead, "device_share": share, "plain_s": plain, "traced_s": traced}
        s.row(f"tracing overhead {kind}".strip(), f"{100 * overhead:+.1f} %", "median of 20 steps each, by turns")
        if s.rehearse:
            continue
        if not share:
            raise Trouble("the traced run says nothing of device_share")
        s.row(f"device time of ops, {kind}", f"{100 * share['joined_share']:.2f} %", share["text"])
        if share["joined_share"] < 0.98:
            raise Trouble(f"{kind}: only {100 * share['joined_share']:.2f} % of the device's time belongs to ops")
