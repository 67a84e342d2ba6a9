"""Isobar's `net.kind: mlp` in PyTorch, its reference in tests. The parameter names are those of
Isobar's checkpoints."""

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"gelu": F.gelu, "gelu_tanh": lambda u: F.gelu(u, approximate="tanh"), "relu": F.relu, "silu": F.silu,
               "tanh": torch.tanh}


class MLP(nn.Module):
    """[B, in_features] -> [B, out_features]: linears, an activation after each but the last. `factors`: what dropout
    multiplies each of their results by, [B, width] each."""

    def __init__(self, in_features=14, out_features=1, hidden=(64, 64, 64), activation="gelu"):
        super().__init__()
        widths = [in_features, *hidden, out_features]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.activation = ACTIVATIONS[activation]
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, factors=None):
        for i, layer in enumerate(self.layers[:-1]):
            x = self.activation(layer(x))
            if factors is not None:
                x = x * factors[i].to(x.dtype)
        return self.layers[-1](x)
