"""GPT-2 and Llama in plain PyTorch, as transformers computes them: the peers for Isobar's gpt and llama.

    python language.py '{"kind": "gpt", "embed_dim": 768, …}' --batch 1 --threads 2    # times training steps on the CPU

The parameter names are those of Isobar's checkpoints. tests/fixtures/make_fixtures.py compares both with transformers'
GPT2LMHeadModel and LlamaForCausalLM, if it is installed.
"""

import torch
import torch.nn.functional as F
from torch import nn
from timing import arguments, known, report


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads, bias):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        kv = dim // heads * kv_heads
        self.q, self.proj = nn.Linear(dim, dim, bias=bias), nn.Linear(dim, dim, bias=bias)
        self.k, self.v = nn.Linear(dim, kv, bias=bias), nn.Linear(dim, kv, bias=bias)

    def forward(self, x, turn):  # [B, N, D]
        b, n, d = x.shape
        split = lambda t, heads: t.view(b, n, heads, -1).transpose(1, 2)
        q, k, v = turn(split(self.q(x), self.heads)), turn(split(self.k(x), self.kv_heads)), split(self.v(x), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class SwiGlu(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.fc2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.fc2(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, norm1, attn, norm2, mlp):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = norm1, attn, norm2, mlp

    def forward(self, x, turn):
        x = x + self.attn(self.norm1(x), turn)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Tokens [B, N] -> logits [B, N, words]; the head is the embedding's table."""

    def __init__(self, embed_dim, depth, num_heads, seq_length, vocab_size, norm_eps, mlp_ratio=4):
        super().__init__()
        norm = lambda: nn.LayerNorm(embed_dim, eps=norm_eps)
        self.embed = nn.Embedding(vocab_size, embed_dim)
        self.pos_embed = nn.Parameter(torch.zeros(seq_length, embed_dim))
        self.blocks = nn.ModuleList(Block(norm(), Attention(embed_dim, num_heads, num_heads, True), norm(),
                                          Mlp(embed_dim, mlp_ratio * embed_dim)) for _ in range(depth))
        self.norm = norm()

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos_embed[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x, lambda t: t)
        return F.linear(self.norm(x), self.embed.weight)


class Llama(nn.Module):
    """The same with RMSNorm, SwiGLU, rotary positions, grouped queries and, unless tied, a head of its own."""

    def __init__(self, embed_dim, depth, num_heads, num_kv_heads, ffn_dim, seq_length, vocab_size, norm_eps, rope_theta, tied=False):
        super().__init__()
        norm = lambda: nn.RMSNorm(embed_dim, eps=norm_eps)
        self.embed = nn.Embedding(vocab_size, embed_dim)
        self.blocks = nn.ModuleList(Block(norm(), Attention(embed_dim, num_heads, num_kv_heads, False), norm(),
                                          SwiGlu(embed_dim, ffn_dim)) for _ in range(depth))
        self.norm = norm()
        self.head = None if tied else nn.Linear(embed_dim, vocab_size, bias=False)
        d = embed_dim // num_heads
        angles = torch.arange(seq_length, dtype=torch.float64)[:, None] * rope_theta ** (
            -torch.arange(0, d, 2, dtype=torch.float64) / d)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        n = tokens.shape[1]

        def turn(t):
            cos, sin = self.cos[:n].to(t.dtype), self.sin[:n].to(t.dtype)
            a, b = t.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, turn)
        return F.linear(self.norm(x), self.embed.weight if self.head is None else self.head.weight)


def net_of(keys):
    """The model for keys of Isobar's net, of which those that it has no argument for are left."""
    kind = Gpt if keys["kind"] == "gpt" else Llama
    own = known(kind, keys)
    if kind is Llama:
        own |= {"tied": keys["tie_embeddings"], "num_kv_heads": keys["num_kv_heads"] or keys["num_heads"],
                "ffn_dim": keys["ffn_dim"] or keys["mlp_ratio"] * keys["embed_dim"]}
    return kind(**own)


def main():
    args = arguments("dropout and scaled angles are left out", "the model with its loss")
    model = net_of(args.net)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    text = torch.randint(args.net["vocab_size"], (args.batch, args.net["seq_length"] + 1))

    def loss_of(tokens, labels):
        return F.cross_entropy(model(tokens).flatten(0, 1).float(), labels.flatten())

    run = torch.compile(loss_of) if args.compile else loss_of

    def loss():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.amp == "bf16"):
            return run(text[:, :-1], text[:, 1:])

    report(args, model, loss)


if __name__ == "__main__":
    main()
