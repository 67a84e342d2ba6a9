"""The part of tests/gpu.sh that needs several ranks: on one GPU they communicate over sockets, a correctness mode."""

import os
import signal
import subprocess
import time

from session import MODELS, Skip, Trouble, tiny, train
from speed import nccl_rows
from weights import hold

STEPS = 5
# (case, configuration, precision, settings): every axis, schedule and kind of context parallelism; bf16 first, because it
# is used most.
LAYOUTS = [
    ("dp2 bf16", "vit-tiny", "bf16", ["layout.dp=2"]),
    ("tp2 sequence parallel bf16", "vit-tiny", "bf16", ["layout.tp=2", "policy.sequence_parallel=true"]),
    ("dp2 ZeRO 3 bf16", "vit-tiny", "bf16", ["layout.dp=2", "policy.zero=3"]),
    ("tp2 pp2", "vit-tiny", "none", ["layout.tp=2", "layout.pp=2"]),
    ("Aurora cp2", "aurora-tiny", "none", ["layout.cp=2"]),
    ("graph cp2", "graphcast-tiny", "none", ["layout.cp=2"]),
    ("Llama tp2 sequence parallel", "llama-tiny", "none", ["layout.tp=2", "policy.sequence_parallel=true"]),
    ("cp2 ring", "vit-tiny", "none", ["layout.cp=2", "policy.cp_kind=ring"]),
    ("cp2 Ulysses", "vit-tiny", "none", ["layout.cp=2", "policy.cp_kind=ulysses"]),
    ("pp2 1f1b", "vit-tiny", "none", ["layout.pp=2", "policy.schedule=1f1b"]),
    ("pp2 zb-h1", "vit-tiny", "none", ["layout.pp=2", "policy.schedule=zb-h1"]),
    ("cp2 all-gather", "vit-tiny", "none", ["layout.cp=2", "policy.cp_kind=allgather"]),
    ("Aurora pp2", "aurora-tiny", "none", ["layout.pp=2"]),
    ("pp2 interleaved", "vit-tiny", "none", ["layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved", "net.depth=4"]),
    ("pp2 gpipe", "vit-tiny", "none", ["layout.pp=2", "policy.schedule=gpipe"]),
    ("dp2 ZeRO 1", "vit-tiny", "none", ["layout.dp=2", "policy.zero=1"]),
    ("dp2 ZeRO 2", "vit-tiny", "none", ["layout.dp=2", "policy.zero=2"]),
]
FIRST = 7  # before the killed rank and the transfers
REHEARSED = ("dp2 bf16", "tp2 pp2", "graph cp2")
COMMON = ["train.global_batch=4", "policy.micro_batch=1", "run.hang_timeout=60", "run.threads=1", f"train.checkpoint_every={STEPS}"]
HANG_S = 15


def transfers(s, found, count):
    code, text = s.run(["mpiexec", "-n", count, "--oversubscribe", "--bind-to", "none", s.program("test_nccl"), "--gtest_brief=1"])
    found[f"transfers on {count}"] = {"exit": code, "tail": text.strip()[-200:]}
    if s.rehearse and "SKIPPED" in text:
        raise Skip("a rehearsal has no GPU")
    if code != 0 or "SKIPPED" in text:
        raise Trouble(f"test_nccl on {count} ranks: {text.strip()[-500:]}")
    s.row(f"NCCL transfers, {count} ranks", "ok", "one GPU: correctness mode")


def killed(s, found):
    """One of two ranks is killed within a step: the run ends in time, and leaves no process."""
    out = s.scratch / "killed"
    command = [str(c) for c in ["setsid", "mpiexec", "-n", 2, "--oversubscribe", "--bind-to", "none", s.trainer(), "train", tiny(s)]]
    for item in ["data.train=", "data.valid=", f"run.device={s.device()}", f"run.out={out}", "train.steps=1000000",
                 "layout.dp=2", f"run.hang_timeout={HANG_S}", "run.threads=1", "train.global_batch=4"]:
        command += ["--set", item]
    child = subprocess.Popen(command, env=s.env | s.emulation(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ranks = lambda: [int(p) for p in os.listdir("/proc") if p.isdigit() and runs(int(p), f"run.out={out}")]
    try:
        log = out / "result.jsonl"
        while not (log.exists() and '"step"' in log.read_text()):
            if child.poll() is not None or time.monotonic() > s.part_ends:
                raise Trouble(f"it did not begin to train: exit {child.returncode}")
            time.sleep(0.05)
        begun = time.monotonic()
        os.kill(ranks()[-1], signal.SIGKILL)
        try:
            child.wait(timeout=HANG_S + 20)
        except subprocess.TimeoutExpired as e:
            raise Trouble(f"it had not ended {HANG_S + 20} s after a rank was killed") from e
        seconds = time.monotonic() - begun
        time.sleep(0.5)
        found["killed rank"] = {"seconds": seconds, "exit": child.returncode, "left": len(ranks())}
        if ranks():
            raise Trouble(f"{len(ranks())} processes were left")
        s.row("one of two ranks killed", f"{seconds:.1f} s", "until the run had ended; no process left")
    finally:
        for p in ranks() + ([child.pid] if child.poll() is None else []):
            os.kill(p, signal.SIGKILL)


def runs(pid, word):
    """True if the process is a rank whose command line contains `word`."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            words = f.read().split("\0")
    except OSError:
        return False
    return word in words and not words[0].endswith(("mpiexec", "setsid"))


def ranks(s, found):
    """whole nets on 2 and 4 ranks of one GPU against one rank, transfers, a killed rank: a correctness mode"""
    s.needs("libnccl.so.2", "libcublasLt.so.13")
    found["mode"] = "correctness: several ranks share one GPU and talk over sockets"
    alone = {}

    def one_rank(config, sets):
        own = (config, *(x for x in sets if x.startswith(("policy.amp", "net."))))
        if own not in alone:
            alone[own] = train(s, MODELS / f"{config}.yaml", COMMON + list(own[1:]), STEPS)
        return alone[own]

    def layout(name, config, amp, sets):
        sets = [f"policy.amp={amp}", *sets]
        run = train(s, MODELS / f"{config}.yaml", COMMON + sets, STEPS)
        if name == LAYOUTS[0][0] and not s.rehearse:
            for told in nccl_rows(name, run):
                s.row(*told)
        hold(s, found, name, run, one_rank(config, sets), amp)

    wanted = [x for x in LAYOUTS if not s.rehearse or x[0] in REHEARSED]
    for x in wanted[:FIRST]:
        s.case(x[0], 25, lambda x=x: layout(*x))
    s.case("killed rank", 20 + HANG_S + 20, lambda: killed(s, found))
    for count in (2, 3):
        s.case(f"transfers on {count}", 30, lambda count=count: transfers(s, found, count))
    for x in wanted[FIRST:]:
        s.case(x[0], 25, lambda x=x: layout(*x))
