"""The part of tests/gpu.sh that times PyTorch's step of the same nets, as fast as it is to be had."""

import importlib.util
import json
import os
import sys

from session import ROOT, Stopped, Trouble, aim, torch_version

FASTER_THAN_TORCH = 1.15  # a target: reported beside the figure; missing it is no failure of this script


def program_of(net):
    """The peer's program and its arguments for a net's settings"""
    here = ROOT / "bench" / "peers"
    if net["kind"] == "llama":
        return [here / "language_best.py", "--embed-dim", net["embed_dim"], "--depth", net["depth"], "--heads", net["num_heads"], "--kv-heads",
                net["num_kv_heads"], "--ffn", net["ffn_dim"], "--words", net["vocab_size"], "--tokens", net["seq_length"],
                *(["--tied"] if net["tie_embeddings"] else [])]
    return [here / "vit_best.py", "--embed-dim", net["embed_dim"], "--depth", net["depth"], "--heads", net["num_heads"], "--patch", net["patch_size"],
            "--mlp-ratio", net["mlp_ratio"], "--img", net["img_height"], net["img_width"], "--channels", net["in_channels"]]


def peers(s, found):
    """PyTorch's step of the same nets at its best: compiled, then eager; q k v in one product, cuDNN's attention"""
    if not (torch_version() if not s.rehearse else importlib.util.find_spec("torch")):
        s.row("PyTorch", "skipped", "this Python has no torch")
        return

    def peer(name, one):
        net, batch = one["spec"]["net"], one["batch"]
        command = [sys.executable, *program_of(net), "--batch", batch, "--steps", 12 if s.rehearse else 30, "--device", "cpu" if s.rehearse else "cuda"]

        def case(line):  # one a line, as they end
            if not line.startswith("{"):
                return
            r = json.loads(line)
            if "step_s" not in r:
                s.row(f"{name} PyTorch", "", line[:200])
                return
            found[f"{name} {r['case']}"] = r
            s.row(f"{name} PyTorch {r['case']}", f"{batch / r['step_s']:.1f} samples/s",
                  f"Isobar is {r['step_s'] / one['step_s']:.2f} times as fast; {aim(r['step_s'] >= FASTER_THAN_TORCH * one['step_s'], '1.15')}; "
                  f"attention {r.get('attention', 'not given')}, first step in {r['first_step_s']:.1f} s")

        try:
            code, text = s.run(command, case, LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", ""))
        except Stopped as e:
            s.row(f"{name} PyTorch", "stopped", str(e)[:100])
            return
        if code != 0:
            raise Trouble(f"{command[1].name}: {text.strip()[-400:]}")

    for name, one in s.measured.items():
        s.case(f"{name} PyTorch", 55, lambda name=name, one=one: peer(name, one))
