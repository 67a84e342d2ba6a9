"""Nets of packages are recorded and planned as they are: FLOPs and parameters are PyTorch's, blocks are parts.

    python3 tests/import/torch_packages.py --isobar build/isobar [--nets gpt2 swin] [--keep FOLDER]

FLOPs are those of torch.utils.flop_counter for a step of another batch on fake tensors. Models of transformers that are none
of our nets are recorded by the command that their refusal names. Needs a Python with PyTorch 2.6 or
later and the packages of tests/fixtures/traced/package_nets.py: .venv-packages, or ISOBAR_PACKAGES_PYTHON; nets whose
package is missing are left out.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from packages_there import PYTHON, ROOT, TRACED, nets_there

FILE = TRACED / "package_nets.py"
RECORDER = ROOT / "bench" / "import"
BATCH = 5  # recordings are of 2, 3 and 4
# The blocks of each net: between its ends at least this number of parts
BLOCKS = {"vit_l": 24, "swin": 24, "gpt2": 12, "llama": 16, "mixtral": 32, "t5": 12, "aurora": 20, "graph": 7, "resnet50": 16,
          "convnext": 36, "unet": 16, "fno": 4}

# Prints FLOPs forward and backward of a step by PyTorch's own counter, and the model's parameters.
COUNTED = """
import json, sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
sys.path[:0] = sys.argv[1:3]
import package_nets
from torch_record import Record, Recorder, make_fake, without_weights
name, batch, amp = sys.argv[3], int(sys.argv[4]), sys.argv[5] == "bf16"
net = package_nets.NETS[name]
fake, model = FakeTensorMode(allow_non_fake_inputs=True), without_weights(getattr(package_nets, name)).train()
make_fake(model, fake)
with fake:
    inputs, named = [], {}
    for text in net.inputs.split():
        key, _, rest = text.rpartition("=")
        shape, _, dtype = rest.partition(":")
        x = torch.zeros([batch, *map(int, shape.split("x"))], dtype=getattr(torch, dtype or "float32"))
        named.update({key: x}) if key else inputs.append(x)
    forward, backward = FlopCounterMode(display=False), FlopCounterMode(display=False)
    with Recorder(model, Record()), torch.no_grad():  # code that decides by its own constants runs with their values
        model(*inputs, **named)
    with forward, Recorder(model, Record()), torch.autocast("cpu", torch.bfloat16, enabled=amp):
        y = model(*inputs, **named)
        y = getattr(y, "loss", y)
        if net.loss == "cross_entropy":
            y = torch.nn.functional.cross_entropy(y, torch.zeros(batch, dtype=torch.int64))
        loss = y if y.dim() == 0 else y.float().square().mean()
    with backward:
        loss.backward()
print(json.dumps([forward.get_total_flops(), backward.get_total_flops(), sum(p.numel() for p in model.parameters())]))
"""

# Small models of transformers that are none of our nets: what their configurations have beside SIZES
SIZES = {"vocab_size": 500, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
CONFIGS = {
    "Gemma2": {"head_dim": 16, "sliding_window": 16},
    "Phi3": {},
    "Olmo2": {},
    "GptOss": {"head_dim": 16, "sliding_window": 16, "num_local_experts": 4},
    "DeepseekV2": {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                   "v_head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 32, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "topk_method": "greedy"},
}
# Writes config.json; prints the model's parameters.
SAVED = """
import json, sys
import transformers
kind, keys, folder = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
config = getattr(transformers, kind + "Config")(**keys)
config.architectures = [kind + "ForCausalLM"]
config.save_pretrained(folder)
print(sum(p.numel() for p in getattr(transformers, kind + "ForCausalLM")(config).parameters()))
"""


def run(arguments):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=3600)


def record(isobar, file, name, inputs, loss):
    """Why the net is not recorded; "": it is, as `file`."""
    words = [*inputs.split(), *(["--loss", loss] if loss else [])]
    done = run([isobar, "import", f"{FILE}:{name}", "--inputs", *words, "-o", file, "--python", PYTHON])
    return f"{name} is not recorded: {done.stderr.strip()}" if done.returncode else ""


def at(size, batch):
    return size[0] + size[1] * batch if isinstance(size, list) else size


def faults_of(isobar, folder, name, net):
    """What differs, in words."""
    out = folder / f"{name}.json"
    if why := record(isobar, out, name, net["inputs"], net["loss"]):
        return [why]
    found = []
    recorded = json.loads(out.read_text())
    for precision in ("fp32", "bf16"):
        graph = recorded["nets"][precision]
        counted = run([PYTHON, "-c", COUNTED, FILE.parent, RECORDER, name, BATCH, precision])
        if counted.returncode:
            return [*found, f"PyTorch does not count it: {counted.stderr.strip()[-400:]}"]
        forward, backward, parameters = json.loads(counted.stdout.splitlines()[-1])
        for what, theirs in (("forward", forward), ("backward", backward)):
            ours = at(graph["flops"][what], BATCH)
            if ours != theirs:
                found.append(f"{precision} {what} FLOPs {ours}, and PyTorch counts {theirs} ({ours / theirs - 1:+.3%})")
    plan = run([isobar, "plan", out, "--totals", "--set", "policy.micro_batch=1", "--set", "train.global_batch=1"])
    if plan.returncode:
        return [*found, f"not planned: {plan.stderr.strip()}"]
    planned = int(re.search(r"([\d,]+) parameters|parameters +([\d,]+)", plan.stdout)[0].strip("parmets ").replace(",", ""))
    if planned != parameters:
        found.append(f"{planned} parameters are planned, and the model has {parameters}")
    blocks = len(recorded["nets"]["fp32"]["parts"]) - 2
    if blocks < BLOCKS[name]:
        found.append(f"{blocks} parts between the ends, and it has {BLOCKS[name]} blocks")
    return found


def config_faults(isobar, folder, kind):
    """What is wrong when a user of a model that is none of our nets does what the refusal says."""
    saved = run([PYTHON, "-c", SAVED, kind, json.dumps(SIZES | CONFIGS[kind]), folder / kind])
    if saved.returncode:
        return [f"transformers does not make it: {saved.stderr.strip()[-400:]}"]
    on = ["--machine", "dgx-h100", "--set", "policy.amp=bf16"]
    refused = run([isobar, "predict", folder / kind / "config.json", *on])
    named = re.search(r"isobar (import \S+ --inputs \S+ \S+) -o net.json", refused.stderr)
    if refused.returncode != 2 or not named:
        return [f"the refusal names no import: {refused.stderr.strip()}"]
    out = folder / f"{kind}.json"
    done = run([isobar, *named[1].split(), "-o", out, "--python", PYTHON])
    if done.returncode:
        return [f"not recorded: {done.stderr.strip()}"]
    plan = run([isobar, "plan", out, "--totals", "--json", "--set", "policy.micro_batch=1", "--set", "train.global_batch=1"])
    planned, recorded = json.loads(plan.stdout), json.loads(out.read_text())["nets"]["fp32"]["flops"]["forward"]
    found = []
    if planned["parameters"] != int(saved.stdout):
        found.append(f"{planned['parameters']} parameters are planned, and the model has {saved.stdout.strip()}")
    if not 0.9 < planned["flops_forward_per_sample"] / at(recorded, 1) < 1.001:  # half of a causal attention's
        found.append(f"{planned['flops_forward_per_sample']} FLOPs forward are planned, and {at(recorded, 1)} were recorded")
    for words in (["predict"], ["search", "--gpus", "8", "--set", "train.global_batch=64"]):
        done = run([isobar, words[0], out, *words[1:], *on])
        if done.returncode:
            found.append(f"{words[0]}: {done.stderr.strip()}")
    return found


def search_faults(isobar, folder):
    """timm's ViT-g on 64 H100: one command, and a page."""
    out, page = folder / "vit_g.json", folder / "page"
    if why := record(isobar, out, "vit_g", "3x224x224", "cross_entropy"):
        return [why]
    done = run([isobar, "search", out, "--machine", "dgx-h100", "--gpus", "64", "--set", "train.global_batch=2048", "--set",
                "policy.amp=bf16", "-o", page])
    if done.returncode:
        return [f"not searched: {done.stderr.strip()}"]
    best = json.loads((page / "search.json").read_text())["layouts"][0]
    found = [] if (page / "index.html").exists() else ["no page was written"]
    if best["memory_gb"] > 80 or not 0 < best["step_s"] < 60:
        found.append(f"the best layout takes {best['step_s']} s and {best['memory_gb']} GB")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--nets", nargs="+")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    nets = nets_there("package_nets")
    failed = False
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or pathlib.Path(made)
        for name in options.nets or nets:
            begin = time.monotonic()
            faults = faults_of(pathlib.Path(options.isobar).resolve(), folder, name, nets[name])
            print(f"{name}: {'; '.join(faults) or 'as PyTorch counts'} ({time.monotonic() - begin:.0f} s)", flush=True)
            failed = failed or bool(faults)
        for kind in CONFIGS if "gpt2" in nets and not options.nets else ():
            faults = config_faults(pathlib.Path(options.isobar).resolve(), folder, kind)
            print(f"{kind}: {'; '.join(faults) or 'recorded as its refusal says, planned and searched'}", flush=True)
            failed = failed or bool(faults)
        if "vit_l" in nets and not options.nets:
            faults = search_faults(pathlib.Path(options.isobar).resolve(), folder)
            print(f"vit_g: {'; '.join(faults) or 'searched on 64 H100'}", flush=True)
            failed = failed or bool(faults)
    if failed:
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
