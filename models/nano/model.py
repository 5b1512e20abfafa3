"""The nano model in PyTorch: Wan's causal video DiT with an x0 head, for training and reference results.

Tensor names are those of the released Wan checkpoints. The weights are used in two ways:

    teacher   teacher forcing: one forward pass over a clean and a noisy copy of a clip. Noisy chunk c
              attends to clean chunks 0 .. c - 1 and to itself; clean chunk c to clean chunks 0 .. c
    rollout   generation chunk by chunk with a KV cache, like kvreel's engine
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
    """Returns RoPE's cos and sin, float32 [frames * tokens per frame, head_dim / 2].

    The channels are split into time, row and column angles, in this order.
    """
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
    """Applies RoPE to adjacent channel pairs of x [..., tokens, heads, head_dim]."""
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
    """Splits frames [..., 3, 48, 48] into patches [..., 36, 192].

    Values of a patch are in the order (channel, row, column).
    """
    *lead, c, h, w = frames.shape
    x = frames.reshape(*lead, c, h // 8, 8, w // 8, 8)
    n = len(lead)
    x = x.permute(*range(n), n + 1, n + 3, n, n + 2, n + 4)
    return x.reshape(*lead, (h // 8) * (w // 8), c * 64)


def head_order(tokens):
    """Reorders patch values [..., 192] from (channel, row, column) to the head's (row, column, channel)."""
    return tokens.unflatten(-1, (3, 64)).transpose(-1, -2).flatten(-2)


def patch_order(tokens):
    """The inverse of head_order."""
    return tokens.unflatten(-1, (64, 3)).transpose(-1, -2).flatten(-2)


def unpatch(tokens):
    """Converts the head's output [..., 36, 192] (row, column, channel) to frames [..., 3, 48, 48]."""
    *lead, n, _ = tokens.shape
    side = math.isqrt(n)
    x = tokens.reshape(*lead, side, side, 8, 8, 3)
    k = len(lead)
    x = x.permute(*range(k), k + 4, k, k + 2, k + 1, k + 3)
    return x.reshape(*lead, 3, side * 8, side * 8)


class Net:
    """The network of config `cfg` and float32 tensors `w`; matrix products are computed in `dtype`."""

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
        """Embeds the prompt's token ids [..., 16] as cross-attention context [..., 16, d]."""
        e = self.w["token_embedding"][ids] + self.w["position_embedding"]
        return self.lin(F.gelu(self.lin(e, "text_embedding.0"), approximate="tanh"),
                        "text_embedding.2")

    def time(self, t):
        e = self.lin(F.silu(self.lin(time_features(t, self.cfg["freq_dim"]), "time_embedding.0")),
                     "time_embedding.2").float()
        e0 = self.lin(F.silu(e), "time_projection.1").float().unflatten(-1, (6, self.d))
        return e, e0

    def block(self, i, x, e0, ctx, cos, sin, attend, keep=0):
        """Transformer block i.

        x: hidden states [B, G, T, d] of G groups (chunks) of T tokens; e0: modulation [B, G, 6, d];
        ctx: prompt context [B, G, 16, d]. attend(i, q, k, v) computes self-attention.
        The groups before `keep` contribute only keys and values. Returns x of the others.
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
        """Cross-attention of z [B, G, T, d] to the prompt ctx [B, G, 16, d]; p: prefix of tensor names."""
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
        """Teacher-forced forward pass over C chunks of T tokens.

        clean, noisy: patches [B, C, T, 192]; t: noise level of each chunk [B, C];
        ids: prompt tokens [B, C, 16]; cos, sin: RoPE tables of C chunks.
        Returns the predicted x0 patches [B, C, T, 192] in the head's order.
        """
        chunks, tok = noisy.shape[1:3]
        past = chunks - 1                                   # no chunk attends to the last clean chunk
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
    """Chunk-by-chunk generation. Attention sees `window` chunks, including the current one."""

    def __init__(self, net, batch, window=7, frames=63):
        self.net, self.window = net, window
        self.cos, self.sin = rope_table(net.cfg, frames)
        self.cache = [[] for _ in range(net.cfg["num_layers"])]
        self.batch, self.chunk = batch, 0

    def forward(self, frames, t, ids, commit=False):
        """Denoises the current chunk once.

        frames: noisy chunk [B, 3, 3, 48, 48] (frames, then RGB); t: noise level; ids: prompt tokens [B, 16].
        commit: append keys and values to the cache and continue with the next chunk.
        Returns the predicted x0, shaped like frames.
        """
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
        """Generates clips [B, frames, 3, 48, 48] in [-1, 1].

        noise: [B, chunks, denoising steps, 3, 3, 48, 48]; ids: prompt tokens [B, chunks, 16].
        given: true frames [B, k * 3, 3, 48, 48] that replace the first k generated chunks, or None.
        steps: decreasing noise levels.
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
