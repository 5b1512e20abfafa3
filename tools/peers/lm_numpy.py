#!/usr/bin/env python3
"""lm_numpy.py - a language model's forward pass in NumPy, in FP32, from the weights of its GGUF file.

    make model-smollm2
    tools/peers/lm_numpy.py [--text gpl-3] [--tokens 512]

Nothing is timed. The NLL of the tokens must agree with `kvreel nll` to --within (1e-4 nat). The forward
pass follows the Llama architecture and shares no code with kvreel: RMS norms, RoPE on adjacent pairs by
position * base^(-2i / D), grouped queries, a causal softmax, and silu(gate) * up."""

import gguf
import lm
import numpy as np


class Weights:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensor = {t.name: t for t in reader.tensors}
        self.field = reader.fields

    def __getitem__(self, name):
        t = self.tensor[name]
        return gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)

    def number(self, key):
        return self.field["llama." + key].contents()


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight


def rotate(x, base):
    """Applies RoPE to x [T, heads, D]."""
    n, _, d = x.shape
    angle = np.arange(n)[:, None, None] * base ** (-2.0 * np.arange(d // 2) / d)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def forward(w, ids):
    """Returns the logits [T, V] of token ids [T]."""
    heads, kv = w.number("attention.head_count"), w.number("attention.head_count_kv")
    eps, base = w.number("attention.layer_norm_rms_epsilon"), w.number("rope.freq_base")
    embedding = w["token_embd.weight"]
    x, n = embedding[ids], len(ids)
    hide = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    for i in range(w.number("block_count")):
        p = f"blk.{i}."
        h = rms(x, w[p + "attn_norm.weight"], eps)
        q = rotate((h @ w[p + "attn_q.weight"].T).reshape(n, heads, -1), base)
        k = rotate((h @ w[p + "attn_k.weight"].T).reshape(n, kv, -1), base)
        v = (h @ w[p + "attn_v.weight"].T).reshape(n, kv, -1)
        out = np.empty_like(q)
        for a in range(heads):
            b = a // (heads // kv)
            s = q[:, a] @ k[:, b].T / np.sqrt(np.float32(q.shape[2])) + hide
            e = np.exp(s - s.max(-1, keepdims=True))
            out[:, a] = e / e.sum(-1, keepdims=True) @ v[:, b]
        x = x + out.reshape(n, -1) @ w[p + "attn_output.weight"].T
        h = rms(x, w[p + "ffn_norm.weight"], eps)
        gate = h @ w[p + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "ffn_up.weight"].T)) @ w[p + "ffn_down.weight"].T
    output = "output.weight" if "output.weight" in w.tensor else "token_embd.weight"
    return rms(x, w["output_norm.weight"], eps) @ (w[output] if output != "token_embd.weight" else embedding).T


def main():
    ask = lm.Question(__doc__, 1e-4)
    theirs = lm.nll(forward(Weights(ask.weights), ask.ids), ask.ids)
    ask.answer(f"numpy {np.__version__}, gguf; dequantized weights, one forward pass", ("NumPy, FP32", theirs))


if __name__ == "__main__":
    main()
