"""The nano model in PyTorch: Wan's causal video DiT with an x0 head, for training and for goldens.

Tensor names are those of the released Wan checkpoints. Two ways through the same weights:

    teacher   one pass over a clean and a noisy copy of a clip; noisy chunk c sees the clean chunks
              before it and itself, clean chunk c sees the clean chunks up to itself
    rollout   chunk by chunk with a cache of keys and values, as the engine runs it
"""
import json
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

STEPS = [1.0, 0.9375, 0.83333331, 0.625]


def load_config(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def load_weights(folder):
    w = load_file(os.path.join(folder, "dit.safetensors"))
    w.update(load_file(os.path.join(folder, "prompt_table.safetensors")))
    return {k: v.float() for k, v in w.items()}


def save_weights(w, folder):
    table = ("token_embedding", "position_embedding")
    save_file({k: v.contiguous() for k, v in w.items() if k not in table},
              os.path.join(folder, "dit.safetensors"))
    save_file({k: w[k].contiguous() for k in table},
              os.path.join(folder, "prompt_table.safetensors"))


def rope_table(cfg, frames):
    """cos, sin [frames * tokens, head_dim / 2] in the order frame, row, column."""
    half = cfg["dim"] // cfg["num_heads"] // 2
    g = half // 3
    rows, cols = cfg["latent_height"] // 8, cfg["latent_width"] // 8
    pos = torch.cartesian_prod(torch.arange(frames), torch.arange(rows), torch.arange(cols)).double()
    ang = []
    for axis, n in enumerate((half - 2 * g, g, g)):
        freq = 10000.0 ** (-torch.arange(n).double() / n)
        ang.append(pos[:, axis:axis + 1] * freq)
    ang = torch.cat(ang, 1)
    return ang.cos().float(), ang.sin().float()


def rope(x, cos, sin):
    """Rotate adjacent pairs: x [..., tokens, heads, head_dim]."""
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = cos[:, None], sin[:, None]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def time_features(t, dim):
    half = dim // 2
    w = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    a = t.double()[..., None] * 1000.0 * w
    return torch.cat([a.cos(), a.sin()], -1).float()


def rms(x, gain):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain


def norm(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


def patches(frames):
    """[..., 3, 48, 48] -> [..., 36, 192], values of a patch in the order (channel, row, column)."""
    *lead, c, h, w = frames.shape
    x = frames.reshape(*lead, c, h // 8, 8, w // 8, 8)
    n = len(lead)
    x = x.permute(*range(n), n + 1, n + 3, n, n + 2, n + 4)
    return x.reshape(*lead, (h // 8) * (w // 8), c * 64)


def head_order(tokens):
    """Patch values (channel, row, column) -> the head's order (row, column, channel)."""
    return tokens.unflatten(-1, (3, 64)).transpose(-1, -2).flatten(-2)


def patch_order(tokens):
    """The inverse of head_order."""
    return tokens.unflatten(-1, (64, 3)).transpose(-1, -2).flatten(-2)


def unpatch(tokens):
    """Head output [..., 36, 192], order (row, column, channel) -> [..., 3, 48, 48]."""
    *lead, n, _ = tokens.shape
    side = math.isqrt(n)
    x = tokens.reshape(*lead, side, side, 8, 8, 3)
    k = len(lead)
    x = x.permute(*range(k), k + 4, k, k + 2, k + 1, k + 3)
    return x.reshape(*lead, 3, side * 8, side * 8)


class Net:
    """The forward pass over a dict of float32 tensors `w`; matrices are used in `dtype`."""

    def __init__(self, cfg, w, dtype=torch.float32):
        self.cfg, self.w, self.dtype = cfg, w, dtype
        self.heads = cfg["num_heads"]
        self.d = cfg["dim"]
        self.hd = self.d // self.heads

    def lin(self, x, name):
        t = self.dtype
        return F.linear(x.to(t), self.w[name + ".weight"].flatten(1).to(t),
                        self.w[name + ".bias"].to(t))

    def text(self, ids):
        """ids [..., 16] -> context [..., 16, d]."""
        e = self.w["token_embedding"][ids] + self.w["position_embedding"]
        return self.lin(F.gelu(self.lin(e, "text_embedding.0"), approximate="tanh"),
                        "text_embedding.2")

    def time(self, t):
        e = self.lin(F.silu(self.lin(time_features(t, self.cfg["freq_dim"]), "time_embedding.0")),
                     "time_embedding.2").float()
        e0 = self.lin(F.silu(e), "time_projection.1").float().unflatten(-1, (6, self.d))
        return e, e0

    def block(self, i, x, e0, ctx, cos, sin, attend, keep=0):
        """x [B, G, T, d] with one modulation e0 [B, G, 6, d] and one context [B, G, 16, d] per group.

        Groups before `keep` only lend their keys and values; the result is x of the rest.
        """
        w, p = self.w, f"blocks.{i}."
        m = (w[p + "modulation"][0] + e0)[..., None, :].unbind(2)
        y = norm(x) * (1 + m[1]) + m[0]
        first = keep * x.shape[2]
        q = rms(self.lin(y[:, keep:], p + "self_attn.q"), w[p + "self_attn.norm_q.weight"])
        k = rms(self.lin(y, p + "self_attn.k"), w[p + "self_attn.norm_k.weight"])
        v = self.lin(y, p + "self_attn.v")
        split = (self.heads, self.hd)
        q = rope(q.unflatten(-1, split).flatten(1, 2), cos[first:], sin[first:]).to(self.dtype)
        k = rope(k.unflatten(-1, split).flatten(1, 2), cos, sin).to(self.dtype)
        x, m, ctx = x[:, keep:], [u[:, keep:] for u in m], ctx[:, keep:]
        o = attend(i, q, k, v.unflatten(-1, split).flatten(1, 2)).flatten(-2).view(x.shape)
        x = x + self.lin(o, p + "self_attn.o") * m[2]
        z = norm(x) * w[p + "norm3.weight"] + w[p + "norm3.bias"]
        x = x + self.cross(z, ctx, p + "cross_attn.")
        y = norm(x) * (1 + m[4]) + m[3]
        h = F.gelu(self.lin(y, p + "ffn.0"), approximate="tanh")
        return x + self.lin(h, p + "ffn.2") * m[5]

    def cross(self, z, ctx, p):
        """z [B, G, T, d], ctx [B, G, 16, d]."""
        t, split = self.dtype, (self.heads, self.hd)
        q = rms(self.lin(z, p + "q"), self.w[p + "norm_q.weight"]).to(t)
        k = rms(self.lin(ctx, p + "k"), self.w[p + "norm_k.weight"]).to(t)
        v = self.lin(ctx, p + "v")
        q, k, v = (u.unflatten(-1, split).transpose(2, 3) for u in (q, k, v))
        a = (q @ k.transpose(-1, -2)).float() * self.hd ** -0.5
        o = a.softmax(-1).to(t) @ v
        return self.lin(o.transpose(2, 3).flatten(-2), p + "o")

    def head(self, x, e):
        m = (self.w["head.modulation"][0] + e[..., None, :])[..., None, :].unbind(2)
        return self.lin(norm(x) * (1 + m[1]) + m[0], "head.head").float()

    def teacher(self, clean, noisy, t, ids, cos, sin):
        """clean, noisy [B, C, T, 192] patch tokens of C chunks; t [B, C]; ids [B, C, 16].

        -> x0 tokens [B, C, T, 192] in the head's order. cos, sin cover C chunks.
        """
        chunks, tok = noisy.shape[1:3]
        past = chunks - 1                                   # nobody looks at the last clean chunk
        n, last = past * tok, self.cfg["num_layers"] - 1
        x = self.lin(torch.cat([clean[:, :past], noisy], 1), "patch_embedding").float()
        e, e0 = self.time(torch.cat([torch.zeros_like(t[:, :past]), t], 1))
        ctx = self.text(ids)
        ctx = torch.cat([ctx[:, :past], ctx], 1)
        cos, sin = torch.cat([cos[:n], cos]), torch.cat([sin[:n], sin])

        def soft(q, k, v):
            return (q @ k.transpose(-1, -2)).softmax(-1) @ v

        def attend(i, q, k, v):
            q = q * self.hd ** -0.5
            q, k, v = (u.transpose(1, 2).contiguous() for u in (q, k, v))
            kc, vc = k[:, :, :n], v[:, :, :n]
            kn, vn, qn = k[:, :, n:], v[:, :, n:], q[:, :, -chunks * tok:]
            seen, own = [], []
            for c in range(chunks):
                lo, hi = c * tok, (c + 1) * tok
                if c < past and i < last:
                    seen.append(soft(q[:, :, lo:hi], kc[:, :, :hi], vc[:, :, :hi]))
                own.append(soft(qn[:, :, lo:hi], torch.cat([kc[:, :, :lo], kn[:, :, lo:hi]], 2),
                                torch.cat([vc[:, :, :lo], vn[:, :, lo:hi]], 2)))
            return torch.cat(seen + own, 2).transpose(1, 2)

        for i in range(last + 1):
            x = self.block(i, x, e0, ctx, cos, sin, attend, past if i == last else 0)
        return self.head(x, e[:, past:])


class Rollout:
    """Chunk-by-chunk generation with a window of cached chunks (the current one included)."""

    def __init__(self, net, batch, window=7, frames=63):
        self.net, self.window = net, window
        self.cos, self.sin = rope_table(net.cfg, frames)
        self.cache = [[] for _ in range(net.cfg["num_layers"])]
        self.batch, self.chunk = batch, 0

    def forward(self, frames, t, ids, commit=False):
        """frames [B, 3, 3, 48, 48] -> x0 of the same shape; commit stores keys and values."""
        net = self.net
        x = patches(frames).flatten(1, 2)[:, None]                # [B, 1, 108, 192]
        x = net.lin(x, "patch_embedding").float()
        e, e0 = net.time(torch.full((self.batch, 1), float(t)))
        ctx = net.text(ids)[:, None]
        tok = x.shape[2]
        cos = self.cos[self.chunk * tok:(self.chunk + 1) * tok]
        sin = self.sin[self.chunk * tok:(self.chunk + 1) * tok]

        def attend(i, q, k, v):
            past = self.cache[i][-(self.window - 1):] if self.window > 1 else []
            kk = torch.cat([p[0] for p in past] + [k], 1)
            vv = torch.cat([p[1] for p in past] + [v], 1)
            if commit:
                self.cache[i].append((k, v))
            q, kk, vv = (u.transpose(1, 2) for u in (q, kk, vv))
            a = (q @ kk.transpose(-1, -2)).float() * net.hd ** -0.5
            return (a.softmax(-1).to(vv.dtype) @ vv).transpose(1, 2)

        for i in range(net.cfg["num_layers"]):
            x = net.block(i, x, e0, ctx, cos, sin, attend)
        out = unpatch(net.head(x, e).unflatten(2, (3, tok // 3)))[:, 0]
        if commit:
            self.chunk += 1
        return out

    def generate(self, noise, ids, given=None, steps=STEPS):
        """noise [B, chunks, 4, 3, 3, 48, 48], ids [B, chunks, 16] -> [B, frames, 3, 48, 48].

        given [B, k * 3, 3, 48, 48]: true frames that take the place of the first k chunks.
        """
        out = []
        for c in range(noise.shape[1]):
            if given is not None and 3 * c < given.shape[1]:
                x0 = given[:, 3 * c:3 * c + 3]
            else:
                x = noise[:, c, 0]
                for s, t in enumerate(steps):
                    x0 = self.forward(x, t, ids[:, c])
                    if s + 1 < len(steps):
                        x = (1 - steps[s + 1]) * x0 + steps[s + 1] * noise[:, c, s + 1]
                x0 = x0.clamp(-1, 1)
            self.forward(x0, 0.0, ids[:, c], commit=True)
            out.append(x0)
        return torch.cat(out, 1)
