"""Isobar's `net.kind: regional-gnn` in PyTorch with index_add, its reference in tests. The graph is built
here a second time, by looking at all pairs. The parameter names are those of Isobar's checkpoints: the first linear over
concatenated operands has one weight for each operand; torch.cat along dim 1 gives the usual weight.

As a command it times training steps (bench/peers/compare.py); NET is the `net` of a run's spec:

    python bench/peers/regional_gnn.py '{"latent_size": 256, ...}' --batch 1 --amp none --threads 2
"""

import math

import torch
from torch import nn

from timing import arguments, known, report


class Bias(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))


class GraphMLP(nn.Module):
    """Linears with SiLU between, and a LayerNorm behind."""

    def __init__(self, operands, hidden, layers, out, eps, norm=True):
        super().__init__()
        self.operands = list(operands)
        if self.operands == ["0"]:
            self.add_module("0", nn.Linear(operands["0"], hidden))
        else:
            for name, width in operands.items():
                self.add_module(name, nn.Linear(width, hidden, bias=False))
            self.add_module("0", Bias(hidden))
        for i in range(1, layers + 1):
            self.add_module(str(i), nn.Linear(hidden, hidden if i < layers else out))
        self.layers, self.norm = layers, nn.LayerNorm(out, eps=eps) if norm else None

    def forward(self, *x):
        part = lambda name: getattr(self, str(name))
        if self.operands == ["0"]:
            u = part(0)(x[0])
        else:
            weight = torch.cat([part(name).weight for name in self.operands], dim=1)
            u = nn.functional.linear(torch.cat(x, dim=-1), weight, part(0).bias)
        for i in range(1, self.layers + 1):
            u = part(i)(nn.functional.silu(u))
        return u if self.norm is None else self.norm(u)


class Step(nn.Module):
    def __init__(self, latent, hidden, layers, eps):
        super().__init__()
        mlp = lambda *names: GraphMLP({name: latent for name in names}, hidden, layers, latent, eps)
        self.intra, self.boundary = mlp("edge", "sender", "receiver"), mlp("edge", "sender", "receiver")
        self.down, self.up = mlp("node", "intra", "boundary"), mlp("node")


def nearest(senders, receivers, k, itself):
    """For each receiver (latitude, longitude in degrees) the k nearest senders by haversine; of equals the first."""
    edges = []
    for r, (lat, lon) in enumerate(receivers):
        hav = []
        for s, (lat_s, lon_s) in enumerate(senders):
            up, across = math.radians(lat_s - lat) / 2, math.radians(lon_s - lon) / 2
            h = math.sin(up) ** 2 + math.cos(math.radians(lat)) * math.cos(math.radians(lat_s)) * math.sin(across) ** 2
            if itself or h > 1e-20:
                hav.append((float(f"{h:.11e}"), s, h))
        for _, s, h in sorted(sorted(hav)[:k], key=lambda x: x[1]):
            edges.append((s, r, *senders[s], lat, lon, h))
    sender = torch.tensor([e[0] for e in edges])
    receiver = torch.tensor([e[1] for e in edges])
    features = torch.tensor([[e[4] - e[2], e[5] - e[3], math.degrees(2 * math.asin(math.sqrt(e[6])))] for e in edges],
                            dtype=torch.float64)
    return sender, receiver, features


class RegionalGNN(nn.Module):
    """[B, C_in, H, W] -> [B, C_out, 1, downstream nodes]"""

    def __init__(self, img_height=101, img_width=221, in_channels=336, out_channels=1, north=50.0, west=70.0,
                 spacing=0.25, downstream=(25, 40, 110, 125), upstream=(25, 50, 70, 110), boundary_longitude=111.0,
                 neighbors=8, boundary_neighbors=32, latent_size=256, num_gnn_layers=12, mlp_hidden_size=256,
                 mlp_num_hidden_layers=2, norm_eps=1e-5):
        super().__init__()
        at = lambda row, column: (north - spacing * row, west + spacing * column)
        inside = lambda region, point: (region[0] - 1e-6 <= point[0] <= region[1] + 1e-6
                                        and region[2] - 1e-6 <= point[1] <= region[3] + 1e-6)
        points = [(r * img_width + c, at(r, c)) for r in range(img_height) for c in range(img_width)]
        down, up = ([p for p in points if inside(region, p[1])] for region in (downstream, upstream))
        border = [n for n, p in enumerate(down) if p[1][1] <= boundary_longitude + 1e-6]
        constant = lambda name, value: self.register_buffer(name, value, persistent=False)
        constant("down_points", torch.tensor([p[0] for p in down]))
        constant("up_points", torch.tensor([p[0] for p in up]))
        positions = lambda nodes: [p[1] for p in nodes]
        for name, edges in (("intra", nearest(positions(down), positions(down), neighbors, False)),
                            ("boundary", nearest(positions(up), [down[n][1] for n in border], boundary_neighbors, True))):
            receiver = torch.tensor(border)[edges[1]] if name == "boundary" else edges[1]
            for what, value in (("sender", edges[0]), ("receiver", receiver), ("features", edges[2])):
                constant(f"{name}_{what}", value)
        mlp = lambda width, out=latent_size, norm=True: GraphMLP({"0": width}, mlp_hidden_size, mlp_num_hidden_layers,
                                                                 out, norm_eps, norm)
        self.embed = nn.ModuleDict({"down": mlp(in_channels), "up": mlp(in_channels), "intra": mlp(3),
                                    "boundary": mlp(3)})
        self.steps = nn.ModuleList(Step(latent_size, mlp_hidden_size, mlp_num_hidden_layers, norm_eps)
                                   for _ in range(num_gnn_layers))
        self.head = mlp(latent_size, out_channels, norm=False)

    def predicted(self, fields):
        """Selects the predicted points of fields: [B, C, H, W] -> [B, C, 1, downstream nodes]"""
        return fields.flatten(2)[:, :, self.down_points].unsqueeze(2)

    def forward(self, x):
        nodes = x.flatten(2).transpose(1, 2)  # [B, H W, C]
        d, u = self.embed["down"](nodes[:, self.down_points]), self.embed["up"](nodes[:, self.up_points])
        features = lambda name: self.embed[name](getattr(self, name + "_features").to(x.dtype)).expand(len(x), -1, -1)
        a, b = features("intra"), features("boundary")
        into = lambda receiver, messages: torch.zeros_like(d).index_add(1, receiver, messages.to(d.dtype))
        for step in self.steps:
            new_a = step.intra(a, d[:, self.intra_sender], d[:, self.intra_receiver])
            new_b = step.boundary(b, u[:, self.boundary_sender], d[:, self.boundary_receiver])
            of_a, of_b = into(self.intra_receiver, new_a), into(self.boundary_receiver, new_b)
            d, u, a, b = d + step.down(d, of_a, of_b), u + step.up(u), a + new_a, b + new_b
        return self.head(d).transpose(1, 2).unsqueeze(2)  # [B, N, C] -> [B, C, 1, N]


def main():
    args = arguments()
    model = RegionalGNN(**known(RegionalGNN, args.net)).float()
    run = torch.compile(model) if args.compile else model
    x = torch.randn(args.batch, args.net["in_channels"], args.net["img_height"], args.net["img_width"])
    y = torch.randn(args.batch, args.net["out_channels"], 1, len(model.down_points))

    def loss():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.amp == "bf16"):
            pred = run(x)
        return nn.functional.mse_loss(pred.float(), y)

    report(args, model, loss)


if __name__ == "__main__":
    main()
