"""The published Aurora (microsoft-aurora from the package index) behind Isobar's channels and parameter names: the reference
for `net.kind: aurora`.

Areas of patches are computed in double, because float32, as in the published code, makes their position codes differ
between devices.

Parameters differ from the published ones in two ways: q, k and v are separate (there one qkv), and a patch
embedding is one weight [D, variables, history, p, p] (there one a variable). Input fields are already normalised. main
times the published net with its own parameters; bf16 is its own autocast, of the backbone alone."""

import contextlib
import datetime

import torch
from torch import nn

from aurora import Aurora as Published
from aurora.batch import Batch, Metadata
from aurora.model import encoder, posencoding
from aurora.model.fourier import absolute_time_expansion

from timing import arguments, known, report

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


encoder.pos_scale_enc = lambda width, lat, lon, *args, **kwargs: posencoding.pos_scale_enc(
    width, lat.double(), lon.double(), *args, **kwargs)


def time_codes(hours, width):
    """[n] hours since 1970 -> [n, width], the net's encoding of a sample's time"""
    return absolute_time_expansion(torch.tensor(hours, dtype=torch.float32), width)


class Aurora(nn.Module):
    """[B, C_in, H, W] and hours since 1970 [B] -> [B, C_out, H, W]: channels as AuroraSpec says."""

    def __init__(self, surf_vars, static_vars, atmos_vars, levels, history, lead_time, north, west, spacing,
                 patch_size, embed_dim, latent_levels, num_heads, encoder_depths, encoder_num_heads, decoder_depths,
                 window, mlp_ratio, dec_mlp_ratio, norm_eps, img_height, img_width, in_channels, out_channels,
                 use_lora=False):
        super().__init__()
        assert norm_eps == 1e-5, "LayerNorm's default, which the published code leaves"
        published = Published(
            surf_vars=tuple(surf_vars), static_vars=tuple(static_vars), atmos_vars=tuple(atmos_vars),
            window_size=tuple(window), encoder_depths=tuple(encoder_depths),
            encoder_num_heads=tuple(encoder_num_heads), decoder_depths=tuple(decoder_depths),
            decoder_num_heads=tuple(reversed(encoder_num_heads)), latent_levels=latent_levels, patch_size=patch_size,
            embed_dim=embed_dim, num_heads=num_heads, mlp_ratio=mlp_ratio, dec_mlp_ratio=dec_mlp_ratio,
            max_history_size=history, timestep=datetime.timedelta(hours=lead_time),
            use_lora=use_lora)
        self.published = [published]  # a list, not a submodule: its parameters are ours, see theirs()
        self.surf, self.static, self.atmos, self.levels = surf_vars, static_vars, atmos_vars, tuple(levels)
        self.history, self.lead, self.patch, self.latent = history, float(lead_time), patch_size, latent_levels
        self.lat = torch.tensor([north - spacing * i for i in range(img_height)])
        self.lon = torch.tensor([west + spacing * i for i in range(img_width)])
        state = published.state_dict()
        self.names = []
        self.weights = nn.ParameterList()
        for name, value in self.ours(state).items():
            self.names.append(name)
            self.weights.append(nn.Parameter(value.clone()))

    def embedded(self):
        return {"encoder.surf_token_embeds": [*self.surf, *self.static], "encoder.atmos_token_embeds": self.atmos}

    def ours(self, state):
        """The published parameters under Isobar's names."""
        out = {}
        for name, value in state.items():
            if ".attn.qkv." in name:
                for which, part in zip("qkv", value.chunk(3)):
                    out[name.replace(".qkv.", f".{which}.")] = part
            elif "_token_embeds.weights." in name:
                stem, variable = name.split(".weights.")
                if variable == self.embedded()[stem][0]:
                    out[f"{stem}.weight"] = torch.cat([state[f"{stem}.weights.{v}"] for v in self.embedded()[stem]], 1)
            else:
                out[name] = value
        return out

    def theirs(self, ours):
        """The inverse."""
        out = {}
        for name, value in ours.items():
            if ".attn.q." in name:
                out[name.replace(".q.", ".qkv.")] = torch.cat(
                    [ours[name.replace(".attn.q.", f".attn.{which}.")] for which in "qkv"])
            elif name.endswith("_token_embeds.weight"):
                for i, v in enumerate(self.embedded()[name.removesuffix(".weight")]):
                    out[name.replace(".weight", f".weights.{v}")] = value[:, i : i + 1]
            elif ".attn.k." not in name and ".attn.v." not in name:
                out[name] = value
        return out

    def named_parameters(self, *args, **kwargs):
        return iter(zip(self.names, self.weights))

    def load_state_dict(self, state):
        for name, p in zip(self.names, self.weights):
            p.data = state[name].clone()

    def batch_of(self, x, hours):
        s, a, c = len(self.surf), len(self.atmos), len(self.levels)
        step = s + a * c
        steps = [x[:, t * step : (t + 1) * step] for t in range(self.history)]
        static = x[:, self.history * step :]
        surf = torch.stack([f[:, :s] for f in steps], 1)  # [B, T, S, H, W]
        upper = torch.stack([f[:, s:].unflatten(1, (a, c)) for f in steps], 1)
        return Batch({v: surf[:, :, i] for i, v in enumerate(self.surf)},
                     {v: static[:, None, i].expand(-1, self.history, -1, -1) for i, v in enumerate(self.static)},
                     {v: upper[:, :, i] for i, v in enumerate(self.atmos)},
                     Metadata(lat=self.lat, lon=self.lon, atmos_levels=self.levels,
                              time=tuple(EPOCH + datetime.timedelta(hours=h) for h in hours)))

    def forward(self, x, hours):
        net = self.published[0].to(x.dtype)
        state = self.theirs(dict(zip(self.names, self.weights)))
        parts = {name: {k.removeprefix(name + "."): v for k, v in state.items() if k.startswith(name + ".")}
                 for name in ("encoder", "backbone", "decoder")}
        batch, lead = self.batch_of(x, hours), torch.full((len(x),), self.lead, dtype=x.dtype)
        grid = (self.latent, x.shape[2] // self.patch, x.shape[3] // self.patch)
        call = torch.func.functional_call
        y = call(net.encoder, parts["encoder"], (batch,), {"lead_times": lead})
        y = call(net.backbone, parts["backbone"], (y,), dict(lead_times=lead, patch_res=grid, rollout_step=0))
        batch = call(net.decoder, parts["decoder"], (y, batch), dict(lead_times=lead, patch_res=grid))
        surf = torch.stack([batch.surf_vars[v] for v in self.surf], 1)
        upper = torch.stack([batch.atmos_vars[v] for v in self.atmos], 1).flatten(1, 2)
        return torch.cat([surf, upper], 1)


def main():
    args = arguments()
    around = Aurora(**known(Aurora, args.net))
    around.weights = nn.ParameterList()  # drops a copy that would count as memory
    net = around.published[0].float()
    size = (args.net["img_height"], args.net["img_width"])
    x, y = (torch.randn(args.batch, args.net[c], *size) for c in ("in_channels", "out_channels"))
    batch, lead = around.batch_of(x, [438000.0 + 6 * i for i in range(args.batch)]), torch.full((args.batch,), around.lead)
    grid = (around.latent, size[0] // around.patch, size[1] // around.patch)

    def forward():
        z = net.encoder(batch, lead_times=lead)
        with torch.autocast("cpu", dtype=torch.bfloat16) if args.amp == "bf16" else contextlib.nullcontext():
            z = net.backbone(z, lead_times=lead, patch_res=grid, rollout_step=0)
        out = net.decoder(z.float(), batch, lead_times=lead, patch_res=grid)
        return torch.cat([*(v for v in out.surf_vars.values()), *(v.flatten(1, 2) for v in out.atmos_vars.values())], 1)

    run = torch.compile(forward) if args.compile else forward
    report(args, net, lambda: nn.functional.mse_loss(run().reshape(y.shape), y))


if __name__ == "__main__":
    main()
