#!/usr/bin/env python3
"""make-lm-fixture.py - a tiny random language model as GGUF, and what it must give.

    pip install gguf numpy
    tools/make-lm-fixture.py tests/fixtures/lm

writes tiny.gguf (Llama architecture, Q4_1 matrices, Q8_0 embedding, F32 norms: the types of
SmolLM2's file), config.json, and expected.safetensors: token ids of two texts, and of the first the
hidden states, logits and the mean NLL by NumPy in float64, from the very numbers that the blocks
hold. The forward here is written from the architecture's definition, not from kvreel's."""
import json
import struct
import sys

import gguf
import numpy as np
from gguf import quants

D, F, HEADS, KV, LAYERS, VOCAB, CONTEXT = 64, 96, 2, 1, 2, 96, 512
HEAD = D // HEADS
BASE, EPS = 10000.0, 1e-5
TOKENS = 192
TYPE = gguf.GGMLQuantizationType


def add(writer, name, x, kind):
    """Writes x as `kind`; returns the numbers that the file then holds."""
    if kind == TYPE.F32:
        writer.add_tensor(name, x)
        return x.astype(np.float64)
    raw = quants.quantize(x, kind)
    writer.add_tensor(name, raw, raw_dtype=kind)
    return quants.dequantize(raw, kind).astype(np.float64)


def make(path):
    r = np.random.default_rng(20)
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(LAYERS)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(D)
    w.add_feed_forward_length(F)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_freq_base(BASE)
    w.add_layer_norm_rms_eps(EPS)
    m = {}

    def matrix(name, n, k, scale):
        m[name] = add(w, name, (r.standard_normal((n, k)) * scale).astype(np.float32), TYPE.Q4_1)

    def norm(name):
        m[name] = add(w, name, (1 + 0.1 * r.standard_normal(D)).astype(np.float32), TYPE.F32)

    m["token_embd.weight"] = add(w, "token_embd.weight", (0.25 * r.standard_normal((VOCAB, D))).astype(np.float32), TYPE.Q8_0)
    for i in range(LAYERS):
        p = f"blk.{i}."
        norm(p + "attn_norm.weight")
        matrix(p + "attn_q.weight", D, D, 2.5 / np.sqrt(D))
        matrix(p + "attn_k.weight", KV * HEAD, D, 2.5 / np.sqrt(D))
        matrix(p + "attn_v.weight", KV * HEAD, D, 1 / np.sqrt(D))
        matrix(p + "attn_output.weight", D, D, 1 / np.sqrt(D))
        norm(p + "ffn_norm.weight")
        matrix(p + "ffn_gate.weight", F, D, 1 / np.sqrt(D))
        matrix(p + "ffn_up.weight", F, D, 1 / np.sqrt(D))
        matrix(p + "ffn_down.weight", D, F, 1 / np.sqrt(F))
    norm("output_norm.weight")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return m


def rms(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rope(x):
    """x [T, heads, HEAD]: pairs (2i, 2i + 1) turned by position * BASE^(-2i / HEAD)."""
    t = np.arange(x.shape[0])[:, None, None]
    angle = t * BASE ** (-2.0 * np.arange(HEAD // 2) / HEAD)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def forward(m, ids):
    x = m["token_embd.weight"][ids]
    n = len(ids)
    hide = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(LAYERS):
        p = f"blk.{i}."
        h = rms(x, m[p + "attn_norm.weight"])
        q = rope((h @ m[p + "attn_q.weight"].T).reshape(n, HEADS, HEAD))
        k = rope((h @ m[p + "attn_k.weight"].T).reshape(n, KV, HEAD))
        v = (h @ m[p + "attn_v.weight"].T).reshape(n, KV, HEAD)
        o = np.empty((n, HEADS, HEAD))
        for a in range(HEADS):
            b = a // (HEADS // KV)
            o[:, a] = softmax(q[:, a] @ k[:, b].T / np.sqrt(HEAD) + hide) @ v[:, b]
        x = x + o.reshape(n, D) @ m[p + "attn_output.weight"].T
        h = rms(x, m[p + "ffn_norm.weight"])
        g = h @ m[p + "ffn_gate.weight"].T
        x = x + (g / (1 + np.exp(-g)) * (h @ m[p + "ffn_up.weight"].T)) @ m[p + "ffn_down.weight"].T
    hidden = rms(x, m["output_norm.weight"])
    return hidden, hidden @ m["token_embd.weight"].T


def write(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.tobytes()
        header[name] = {"dtype": {"int32": "I32", "float32": "F32", "float64": "F64"}[str(x.dtype)],
                        "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


def main():
    out = sys.argv[1]
    m = make(out + "/tiny.gguf")
    r = np.random.default_rng(21)
    a, b = (r.integers(0, VOCAB, TOKENS).astype(np.int32) for _ in range(2))
    hidden, logits = forward(m, a)
    told = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
    nll = -told[np.arange(TOKENS - 1), a[1:]].mean()
    write(out + "/expected.safetensors", {"hidden": hidden.astype(np.float32), "logits": logits[-1].astype(np.float32),
                                          "nll": np.array([nll], np.float32)})
    write(out + "/texts.safetensors", {"a": a, "b": b})
    with open(out + "/config.json", "w", encoding="utf-8") as f:
        json.dump({"model_type": "llama", "weights": {"gguf": "tiny.gguf", "fetch": "tools/make-lm-fixture.py"}, "dim": D, "ffn_dim": F,
                   "num_heads": HEADS, "num_kv_heads": KV, "num_layers": LAYERS, "vocabulary_size": VOCAB,
                   "context_length": CONTEXT, "rope_base": BASE, "eps": EPS}, f, indent=4)
        f.write("\n")


if __name__ == "__main__":
    main()
