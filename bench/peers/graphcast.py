"""Isobar's `net.kind: graphcast` in PyTorch with index_add, its reference in tests. The graph is built
independently from all pairs, its mesh nodes in another order. The parameter names are those of Isobar's
checkpoints, as in regional_gnn.py."""

import math

import torch
from regional_gnn import GraphMLP
from torch import nn


def split_icosahedron(level):
    """Nodes [n, 3] on the unit sphere, directed edges of all levels {(sender, receiver)}, triangles of the finest."""
    phi = (1 + math.sqrt(5)) / 2
    turn = (math.pi - 2 * math.asin(phi / math.sqrt(3))) / 2
    nodes = []
    for a in (-1, 1):
        for b in (-phi, phi):
            for x, y, z in ((a, b, 0), (0, a, b), (b, 0, a)):
                r = math.hypot(a, b)
                nodes.append(((x * math.cos(turn) + z * math.sin(turn)) / r, y / r,
                              (-x * math.sin(turn) + z * math.cos(turn)) / r))
    least = min(math.dist(nodes[0], q) for q in nodes[1:])
    near = lambda i, j: math.dist(nodes[i], nodes[j]) < 1.01 * least
    faces = [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near(i, j) and near(j, k) and near(i, k)]
    sides = lambda faces: {(f[a], f[b]) for f in faces for a in range(3) for b in range(3) if a != b}
    edges = sides(faces)
    for _ in range(level):
        known, finer = {}, []

        def middle(i, j):
            key = (min(i, j), max(i, j))
            if key not in known:
                p = [(a + b) / 2 for a, b in zip(nodes[i], nodes[j])]
                nodes.append(tuple(c / math.hypot(*p) for c in p))
                known[key] = len(nodes) - 1
            return known[key]

        for a, b, c in faces:
            ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
            finer += [(a, ab, ca), (b, ab, bc), (c, bc, ca), (ab, bc, ca)]
        faces = finer
        edges |= sides(faces)
    return torch.tensor(nodes, dtype=torch.float64), edges, faces


def inside(p, corners):
    """Smallest distance of the point to the sides of a spherical triangle; negative: outside."""
    a, b, c = corners
    if torch.dot(torch.linalg.cross(b - a, c - a), a) < 0:
        b, c = c, b
    normals = [torch.linalg.cross(x, y) for x, y in ((a, b), (b, c), (c, a))]
    return min(torch.dot(n / n.norm(), p).item() for n in normals)


def edge_features(sender, receiver):
    """Of places [E, 3]: length, and the sender's less the receiver's where the receiver is at 0 N 0 E; longest: 1."""
    lat, lon = torch.asin(receiver[:, 2]), torch.atan2(receiver[:, 1], receiver[:, 0])
    zero, one = torch.zeros_like(lat), torch.ones_like(lat)
    around = torch.stack([lon.cos(), lon.sin(), zero, -lon.sin(), lon.cos(), zero, zero, zero, one], dim=1).view(-1, 3, 3)
    down = torch.stack([lat.cos(), zero, lat.sin(), zero, one, zero, -lat.sin(), zero, lat.cos()], dim=1).view(-1, 3, 3)
    seen = (down @ around @ (sender - receiver).unsqueeze(2)).squeeze(2)
    length = seen.norm(dim=1, keepdim=True)
    return torch.cat([length, seen], dim=1) / length.max()


class GraphCast(nn.Module):
    """[B, C_in, H, W] -> [B, C_out, H, W]; rows from the north pole to the south pole, the first column at 0 E"""

    def __init__(self, img_height=721, img_width=1440, in_channels=471, out_channels=227, mesh_level=6, radius=0.6,
                 latent_size=512, num_gnn_layers=16, mlp_hidden_size=512, mlp_num_hidden_layers=1, norm_eps=1e-5):
        super().__init__()
        nodes, edges, faces = split_icosahedron(mesh_level)
        lat = torch.linspace(90, -90, img_height, dtype=torch.float64).deg2rad().repeat_interleave(img_width)
        lon = (torch.arange(img_width, dtype=torch.float64) * 360 / img_width).deg2rad().repeat(img_height)
        grid = torch.stack([lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()], dim=1)
        longest = max((nodes[a] - nodes[b]).norm().item() for f in faces for a, b in zip(f, f[1:] + f[:1]))
        near = torch.nonzero(torch.cdist(nodes, grid) <= radius * longest)
        aside = 1e-9 * torch.tensor([0.3, 0.5, 0.8], dtype=torch.float64)  # shifted: one triangle a point
        corners = [max(faces, key=lambda f: inside(p + aside, nodes[list(f)])) for p in grid]
        constant = lambda name, value: self.register_buffer(name, value, persistent=False)
        for name, places, pairs in (
                ("up", (grid, nodes), [(g, m) for m, g in near.tolist()]),
                ("mesh", (nodes, nodes), sorted(edges)),
                ("down", (nodes, grid), [(m, g) for g, of in enumerate(corners) for m in of])):
            sender, receiver = torch.tensor(pairs).T
            constant(f"{name}_sender", sender)
            constant(f"{name}_receiver", receiver)
            constant(f"{name}_features", edge_features(places[0][sender], places[1][receiver]))
        around = torch.atan2(nodes[:, 1], nodes[:, 0])
        constant("grid_places", torch.stack([lat.sin(), lon.sin(), lon.cos()], dim=1))
        constant("mesh_places", torch.stack([nodes[:, 2], around.sin(), around.cos()], dim=1))
        D, width = latent_size, in_channels + 3
        mlp = lambda operands, out=D, norm=True: GraphMLP(operands, mlp_hidden_size, mlp_num_hidden_layers, out, norm_eps,
                                                          norm)
        edge, node = {"edge": D, "sender": D, "receiver": D}, {"node": D, "edges": D}
        self.embed = nn.ModuleDict({"grid": mlp({"0": width}), "mesh": mlp({"0": width})})
        self.encode = nn.ModuleDict({"features": mlp({"0": 4}), "mesh_features": mlp({"0": 4}), "edge": mlp(edge),
                                     "mesh": mlp(node), "grid": mlp({"node": D})})
        self.steps = nn.ModuleList(nn.ModuleDict({"edge": mlp(edge), "node": mlp(node)}) for _ in range(num_gnn_layers))
        self.decode = nn.ModuleDict({"features": mlp({"0": 4}), "edge": mlp(edge), "grid": mlp(node),
                                     "mesh": mlp({"node": D})})  # the last step has no further consumer
        self.head = mlp({"0": D}, out_channels, norm=False)
        self.shape = (img_height, img_width)

    def forward(self, x):
        B = len(x)
        places = lambda name: getattr(self, name).to(x.dtype).expand(B, -1, -1)
        grid = self.embed["grid"](torch.cat([x.flatten(2).transpose(1, 2), places("grid_places")], dim=2))
        zeros = x.new_zeros(B, len(self.mesh_places), x.shape[1])
        mesh = self.embed["mesh"](torch.cat([zeros, places("mesh_places")], dim=2))

        def messages(mlp, name, edges, sender, receiver):
            new = mlp(edges, sender[:, getattr(self, name + "_sender")], receiver[:, getattr(self, name + "_receiver")])
            return new, torch.zeros_like(receiver).index_add(1, getattr(self, name + "_receiver"), new.to(receiver.dtype))

        of = self.encode
        _, sums = messages(of["edge"], "up", of["features"](places("up_features")), grid, mesh)
        edges = of["mesh_features"](places("mesh_features"))
        grid, mesh = grid + of["grid"](grid), mesh + of["mesh"](mesh, sums)
        for step in self.steps:
            new, sums = messages(step["edge"], "mesh", edges, mesh, mesh)
            edges, mesh = edges + new, mesh + step["node"](mesh, sums)
        of = self.decode
        _, sums = messages(of["edge"], "down", of["features"](places("down_features")), mesh, grid)
        grid = grid + of["grid"](grid, sums)
        return self.head(grid).transpose(1, 2).unflatten(2, self.shape)
