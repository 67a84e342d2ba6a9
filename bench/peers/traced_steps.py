"""Eager steps of small nets in PyTorch beside their predictions: each net is exported, timed and predicted.

    .venv-peers/bin/python bench/peers/traced_steps.py --isobar build/isobar --machine calibrated.yaml

One thread's CPU time is measured, which other work on the machine disturbs little; medians, by turns. No price was set
by these nets (configs/engines/pytorch.yaml).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fixtures/traced"))
from nets import Attention, Block, Double  # noqa: E402


class Vit(nn.Module):
    def __init__(self, width, depth, heads):
        super().__init__()
        self.embed, self.pos = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.zeros(1, 64, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Words(nn.Module):
    def __init__(self, width, words, blocks):
        super().__init__()
        self.table, self.blocks, self.head = nn.Embedding(words, width), nn.ModuleList(blocks), nn.Linear(width, words)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Gated(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.attn, self.n2 = nn.RMSNorm(width), Attention(width, heads), nn.RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Convolutions(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(Double(3 if i == 0 else width << (i - 1), width << i) for i in range(4))
        self.head = nn.Linear(width << 3, 100)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(F.max_pool2d(x, 2) if i else x)
        return self.head(x.mean((2, 3)))


class Autoencoder(nn.Module):
    def __init__(self, sizes=(784, 1024, 512, 128, 512, 1024, 784)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return self.layers[-1](x)


def encoder():
    layers = (nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True, norm_first=True) for _ in range(3))
    return Words(256, 1000, layers)


def vit_wide():
    return Vit(512, 2, 8)


def vit_deep():
    return Vit(256, 8, 4)


def gated():
    return Words(320, 1000, (Gated(320, 5) for _ in range(4)))


def gpt_small():
    return Words(128, 1000, (Block(128, 4) for _ in range(4)))


def convolutions():
    return Convolutions()


def autoencoder():
    return Autoencoder()


# Net: inputs, loss, batch
NETS = {vit_wide: ("3x64x64", "cross_entropy", 8), vit_deep: ("3x64x64", "cross_entropy", 4),
        encoder: ("96:int64", "cross_entropy", 6), gated: ("96:int64", "cross_entropy", 6),
        gpt_small: ("64:int64", "cross_entropy", 8), convolutions: ("3x64x64", "cross_entropy", 4),
        autoencoder: ("784", "mse", 96)}


def step_of(build):
    inputs, loss, batch = NETS[build]
    shape, _, words = inputs.partition(":")
    shape = (batch, *map(int, shape.split("x")))
    net, x = build().train(), torch.randint(0, 1000, shape) if words else torch.randn(shape)
    optimizer = torch.optim.Adam(net.parameters(), fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        y = net(x)
        if loss == "mse":
            F.mse_loss(y, x).backward()
        else:
            F.cross_entropy(y.flatten(0, -2), torch.zeros(y[..., 0].numel(), dtype=torch.int64)).backward()
        optimizer.step()

    return step


def timed(rounds=3, seconds=1.0):
    steps, times = {b: step_of(b) for b in NETS}, {b: [] for b in NETS}
    for _ in range(rounds):
        for build, step in steps.items():
            step(), step()
            end = time.process_time() + seconds
            while time.process_time() < end:
                begin = time.process_time()
                step()
                times[build].append(time.process_time() - begin)
    return {b: statistics.median(t) for b, t in times.items()}


def predicted(options, build, folder):
    inputs, loss, batch = NETS[build]
    net = os.path.join(folder, build.__name__ + ".json")
    subprocess.run([options.isobar, "import", f"{__file__}:{build.__name__}", "--inputs", inputs, "--loss", loss, "-o", net,
                    "--python", sys.executable], check=True, stdout=subprocess.DEVNULL)
    sizes = [f"policy.micro_batch={batch}", f"train.global_batch={batch}", "run.threads=1"]
    done = subprocess.run([options.isobar, "predict", net, "--machine", options.machine, "--json"] +
                          [a for s in sizes for a in ("--set", s)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["step_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--machine", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for build, seconds in timed().items():
            of = predicted(options, build, folder)
            errors.append(abs(of / seconds - 1))
            print(f"{build.__name__:14} {1e3 * seconds:7.1f} ms measured {1e3 * of:7.1f} predicted {of / seconds - 1:+.1%}")
    print(f"median error {statistics.median(errors):.1%}")


if __name__ == "__main__":
    main()
