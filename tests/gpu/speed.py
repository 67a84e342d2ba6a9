"""Parts of tests/gpu.sh that measure speed: Isobar's step, the chip's sustained rate, tracing."""

import json
import statistics

from session import MODELS, WARM, Trouble, aim, json_of, train

# Targets: reported beside the figure; missing one is no failure of this script.
SHARE_OF_PRODUCT = 0.60
TRACING = 0.02  # of a step
CASES = {"vit-1536": 4, "vit-384": 16}  # config: batch that fits into 80 GB and fills the chip
# Variants besides the default: cuDNN's attention; without graphs; cuBLASLt's tanh GELU with every fusion and algorithms
# chosen by timing.
VARIANTS = {"cuDNN's attention": ["run.attention=cudnn"], "without graphs": ["run.cuda_graphs=false"],
            "timed, tanh GELU": ["run.gemm_choice=timed", "net.gelu=tanh"]}
# The whole globe at 0.25 degrees: 64,800 columns for the Perceivers
AURORA = ["train.global_batch=1", "policy.micro_batch=1", "policy.amp=bf16", "policy.recompute=selective", "train.warmup=0"]
MOST_BESIDE = 512 << 20  # bytes on the device that are not accounted for


def nccl_rows(name, run):
    """Memory that NCCL uses for a rank, beside its prediction, and the multiprocessors that it leaves to products."""
    last = [e["gpu"] for e in run["events"] if e["event"] == "device"][-1]
    if last.get("product_sms"):
        yield f"{name} products beside transfers", f"{last['product_sms']} SMs", "that cuBLASLt's products are chosen for (24 channels, or NCCL_MAX_CTAS)"
    if not last.get("nccl"):
        return
    # Memory in use is the whole card's: of every rank that shares it.
    ranks = run["start"]["ranks"] if last.get("ranks_share_a_gpu") else 1
    told = f"a rank, planned {last['nccl_planned_bytes'] / 2**20:.0f}; {last['mode']}"
    if after := last.get("in_use_after_first_step_bytes"):
        # Includes graphs and kernels that were loaded in the first step.
        took = (after - last["in_use_before_nccl_bytes"]) / ranks - last["landing_bytes"]
        yield f"{name} NCCL {last['nccl']} memory", f"{took / 2**20:.0f} MiB", told
    else:
        yield f"{name} NCCL {last['nccl']} memory", f"{last['nccl_bytes'] / ranks / 2**20:.0f} MiB", told


def memory_row(name, run):
    """The planned arena, and other device memory after the last step: named constants and a rest."""
    events = [e["gpu"] for e in run["events"] if e["event"] == "device"]
    planned, first, last = run["start"]["memory"]["arena"], events[0], events[-1]
    if first["arena_bytes"] != planned:
        raise Trouble(f"{name}: the arena on the device has {first['arena_bytes']} bytes, the plan says {planned}")
    constants = {k: first.get(k, 0) for k in ("context_bytes", "library_bytes", "nccl_bytes", "landing_bytes")}
    rest = last["in_use_bytes"] - planned - sum(constants.values())  # graphs, lazily loaded kernels
    told = ", ".join(f"{k.removesuffix('_bytes')} {v / 2**20:.0f}" for k, v in constants.items() if v)
    return (f"{name} arena", f"{planned / 2**20:.0f} MiB", f"as planned to the byte; beside it {told}, later {rest / 2**20:+.0f} MiB"), rest


def cases_of(s):
    return {"vit-tiny": 8} if s.rehearse else CASES


def sets_of(s, batch):
    return [f"train.global_batch={batch}", "policy.micro_batch=0", "policy.amp=bf16", f"data.workers={0 if s.rehearse else 8}"]


def figures(run, batch):
    seconds = [e["seconds"] - e["data_wait_s"] for e in run["steps"][WARM:]]
    step = statistics.median(seconds)
    return {"step_s": step, "p10_s": statistics.quantiles(seconds, n=10)[0], "p90_s": statistics.quantiles(seconds, n=10)[-1],
            "samples_per_s": batch / step, "memory": run["start"]["memory"],
            "gpu": next((e["gpu"] for e in run["events"] if e["event"] == "device"), None)}


def own_step(s, found, name, batch, sets):
    """Isobar's step of a configuration: time, rate, attention, memory; kept for predictions and peers"""
    run = train(s, MODELS / f"{name}.yaml", sets, 10 if s.rehearse else 40)
    one = found[name] = {"batch": batch, "spec": run["start"]["spec"], "graphs": figures(run, batch)}
    ours = one["graphs"]
    ours["flops_per_s"] = flops = 3 * run["start"]["flops_forward_per_sample"] * ours["samples_per_s"]
    s.measured[name] = one | {"step_s": ours["step_s"], "arena": ours["memory"]["arena"], "flops_per_s": flops, "sets": sets}
    s.row(f"{name} bf16 batch {batch}", f"{ours['samples_per_s']:.1f} samples/s",
          f"{ours['step_s'] * 1e3:.2f} ms a step ({ours['p10_s'] * 1e3:.2f} to {ours['p90_s'] * 1e3:.2f}), {flops * 1e-12:.1f} model TFLOP/s")
    for use in (ours["gpu"] or {}).get("attention") or []:
        s.row(f"{name} attention", use["path"], f"{use['shape']}, {use['engine']}")
    if routines := run["end"].get("routines"):
        one["routines"] = routines
        longest = sorted(routines, key=lambda r: -r["seconds"])[:3]
        s.row(f"{name} routines", "", ", ".join(f"{r['name']} {1e3 * r['seconds'] / r['count']:.2f} ms" for r in longest))
    if ours["gpu"] and not s.rehearse:
        row, rest = memory_row(name, run)
        one["beside_arena_bytes"] = rest
        s.row(*row)
        for told in nccl_rows(name, run):
            s.row(*told)
        if rest > MOST_BESIDE:
            raise Trouble(f"{rest} bytes on the device that neither the plan nor a constant names")


def steps(s, found):
    """Isobar's own step: ViT D=1536, then D=384, in bf16 with graphs; the rate of products; AuroraSmall; variants"""
    s.needs("libcublasLt.so.13")

    def aurora():
        run = train(s, MODELS / "aurora-small.yaml", AURORA, 8)
        one = found["aurora-small"] = figures(run, 1)
        s.row("aurora-small bf16 batch 1", f"{one['samples_per_s']:.2f} samples/s", f"{one['step_s'] * 1e3:.1f} ms a step, arena {one['memory']['arena'] / 2**20:.0f} MiB")

    def variant(name, batch, kind):
        run = train(s, MODELS / f"{name}.yaml", [*sets_of(s, batch), *VARIANTS[kind]], 16)
        one, ours = figures(run, batch), found[name]["graphs"]
        found[name][kind] = one
        s.row(f"{name} {kind}", f"{one['samples_per_s']:.1f} samples/s",
              f"{(one['step_s'] - ours['step_s']) * 1e3:+.2f} ms a step; fused {(one['gpu'] or {}).get('fused')}")

    for name, batch in cases_of(s).items():
        s.case(name, 40, lambda name=name, batch=batch: own_step(s, found, name, batch, sets_of(s, batch)))
    if s.rehearse:
        return
    s.case("large product, sustained", 20, lambda: ceiling(s, found))
    s.case("aurora-small", 30, aurora)
    for name, batch in CASES.items():
        for kind in VARIANTS if name in found else ():
            s.case(f"{name} {kind}", 20, lambda name=name, batch=batch, kind=kind: variant(name, batch, kind))


def language(s, found):
    """Isobar's own step of Llama 3.2 1B in bf16, two samples of 4,096 tokens"""
    s.needs("libcublasLt.so.13")
    name, batch, more = ("llama-tiny", 8, []) if s.rehearse else ("llama3.2-1b", 2, ["net.seq_length=4096", "policy.micro_batch=2"])
    plain = ["train.optimizer=adam", "train.weight_decay=0", "train.grad_clip=0"]  # what the peer does
    s.case(name, 40, lambda: own_step(s, found, name, batch, [*sets_of(s, batch), *plain, *more]))
    if name in found:
        tokens = found[name]["spec"]["net"]["seq_length"] * found[name]["graphs"]["samples_per_s"]
        s.row(f"{name} tokens", f"{tokens:.0f} tokens/s", "")


def ceiling(s, found):
    """Large bf16 products without a break for 6 s: the rate that this chip holds, with clock and power."""
    code, text = s.run([s.program("gpu_ceiling"), "6"])
    if code != 0:
        raise Trouble(f"gpu_ceiling ended with {code}: {text.strip()[-300:]}")
    held = found["ceiling"] = json_of(text)
    rate = held["sustained_flops_per_s"]
    clocks = f"{held['clock_mhz']['median']} of {held['clock_mhz']['limit']} MHz, {held['watts']:.0f} W" if held.get("clock_mhz") else f"clocks not seen: {held.get('why')}"
    s.row("large product, sustained", f"{rate * 1e-12:.0f} TFLOP/s", f"8192^3 bf16 for {held['seconds']:.1f} s (first second {held['first_flops_per_s'] * 1e-12:.0f}); {clocks}")
    for name, one in s.measured.items():
        share = one["flops_per_s"] / rate
        told = f"; {aim(share >= SHARE_OF_PRODUCT, '60 %')}" if name == "vit-1536" else ""
        s.row(f"{name} share of it", f"{100 * share:.1f} %", f"model FLOP/s of the step{told}")


def beside_ops(file):
    """Seconds of each step of a trace before the first op of the compute lane and after its last."""
    events = json.loads(file.read_text())["traceEvents"]
    lane = {(e["pid"], e["tid"]): e["args"]["lane"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    whole, ops = {}, {}
    for e in events:
        if e["ph"] == "X" and lane[e["pid"], e["tid"]] == "step":
            whole[e["args"]["step"]] = e["dur"]
        elif e["ph"] == "X" and lane[e["pid"], e["tid"]] == "compute":
            ops.setdefault(e["args"]["step"], []).append((e["ts"], e["ts"] + e["dur"]))
    return [1e-6 * (whole[n] - max(end for _, end in spans) + min(begin for begin, _ in spans)) for n, spans in ops.items() if n in whole]


def trace(s, found):
    """CUPTI: share of device time that belongs to ops, and what tracing costs, with graphs and without"""
    s.needs("libcupti.so.13", "libcublasLt.so.13")
    config, count, last = ("vit-tiny", 4, 2) if s.rehearse else ("vit-384", 24, 10)
    # A step that waits for its reader says nothing of tracing.
    sets = ["train.global_batch=8", "policy.micro_batch=0", "policy.amp=bf16", f"data.workers={0 if s.rehearse else 8}"]
    kinds = {"": []} if s.rehearse else {"graphs": [], "no graphs": ["run.cuda_graphs=false"]}
    for kind, more in kinds.items():
        plain, traced = [], []
        for i in range(1 if s.rehearse else 2):  # alternate, so that drift affects both
            for times, file in ((plain, None), (traced, s.logs / f"trace-{kind.replace(' ', '-') or 'rehearsed'}{i}.json")):
                run = train(s, MODELS / f"{config}.yaml", [*sets, *more], count, file)
                times += [e["seconds"] - e["data_wait_s"] for e in run["steps"][-last:]]  # the traced ones, if any
        share = next((e for e in run["events"] if e["event"] == "device_share"), None)
        overhead = statistics.median(traced) / statistics.median(plain) - 1
        found[kind or "rehearsed"] = {"overhead": overhead, "device_share": share, "plain_s": plain, "traced_s": traced}
        beside = found[kind or "rehearsed"]["beside_ops_s"] = statistics.median(beside_ops(file))
        s.row(f"tracing overhead {kind}".strip(), f"{100 * overhead:+.1f} %",
              f"median of {len(plain)} steps each, by turns: {1e3 * statistics.median(plain):.2f} and {1e3 * statistics.median(traced):.2f} ms, "
              f"of a traced one {1e3 * beside:.2f} ms are before the first op and after the last; {aim(overhead <= TRACING, f'{100 * TRACING:.0f} %')}")
        if s.device() == "cpu":
            continue
        if not share:
            raise Trouble("the traced run says nothing of device_share")
        s.row(f"device time of ops {kind}".strip(), f"{100 * share['joined_share']:.2f} %", share["text"])
        if share["joined_share"] < 0.98:
            s.bad.append(f"device time of ops {kind}".strip())
