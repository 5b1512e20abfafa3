#!/usr/bin/env python3
"""lm_numpy.py - a language model's forward in NumPy, FP32, from the weights of its GGUF file.

    make model-smollm2
    tools/peers/lm_numpy.py [--text gpl-3] [--tokens 512]

Nothing is timed: the likelihood of the same tokens has to be that of `kvreel nll` to --within (1e-4
nat). Written from the architecture's definition, not from kvreel's code: rms norms, adjacent pairs
turned by position * base^(-2i / D), grouped queries, a causal softmax, silu(gate) * up."""

import argparse
import glob
import json
import os

import common
import gguf
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


def turn(x, base):
    """x [T, heads, D]"""
    n, _, d = x.shape
    angle = np.arange(n)[:, None, None] * base ** (-2.0 * np.arange(d // 2) / d)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def forward(w, ids):
    """Logits [T, V]."""
    heads, kv = w.number("attention.head_count"), w.number("attention.head_count_kv")
    eps, base = w.number("attention.layer_norm_rms_epsilon"), w.number("rope.freq_base")
    embedding = w["token_embd.weight"]
    x, n = embedding[ids], len(ids)
    hide = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    for i in range(w.number("block_count")):
        p = f"blk.{i}."
        h = rms(x, w[p + "attn_norm.weight"], eps)
        q = turn((h @ w[p + "attn_q.weight"].T).reshape(n, heads, -1), base)
        k = turn((h @ w[p + "attn_k.weight"].T).reshape(n, kv, -1), base)
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


def nll(logits, ids):
    x = logits[:-1].astype(np.float64)
    top = x.max(axis=1)
    total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    return float((total - x[np.arange(len(ids) - 1), ids[1:]]).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common.add_arguments(parser, 3)
    parser.add_argument("--model", default=str(common.ROOT / "models/smollm2-135m"), help="folder of the model")
    parser.add_argument("--ids", default=str(common.ROOT / "configs/suites/texts-debian.safetensors"), help="token ids")
    parser.add_argument("--text", default="gpl-3", help="which text (gpl-3)")
    parser.add_argument("--tokens", type=int, default=512, help="the first N tokens (512)")
    parser.add_argument("--within", type=float, default=1e-4, help="nats that both may differ by (1e-4)")
    args = parser.parse_args()
    found = glob.glob(os.path.join(args.model, "*.gguf"))
    tensors = common.read_safetensors(args.ids)
    if len(found) != 1:
        common.fail(f"{args.model}: {len(found)} GGUF files, need one (make model-smollm2)")
    if args.text not in tensors:
        common.fail(f"{args.ids}: no tensor '{args.text}'")
    ids = np.frombuffer(tensors[args.text][2], dtype="<i4")[: args.tokens]
    words = ["nll", args.model, args.ids, "--text", args.text, "--tokens", str(args.tokens), "--json"]
    ours = json.loads(common.kvreel(args, words, max(common.thread_counts(args))))["nll"]
    theirs = nll(forward(Weights(found[0]), ids), ids)
    rows = [
        {"what": "kvreel", "NLL": f"{ours:.6f}", "less kvreel": ""},
        {"what": "NumPy, FP32", "NLL": f"{theirs:.6f}", "less kvreel": f"{theirs - ours:+.2e}"},
    ]
    head = common.facts(args, [f"numpy {np.__version__}, gguf; widened weights, one forward"])[:-1]
    common.write_table(
        f"NLL of tokens 1 .. {len(ids) - 1} of {args.text}, nats a token", head, ["what", "NLL", "less kvreel"], rows
    )
    common.write_json(args, "nll", head, rows)
    if not abs(theirs - ours) <= args.within:
        common.fail(f"{theirs:.6f} of NumPy, {ours:.6f} of kvreel: more than {args.within:g} apart")


if __name__ == "__main__":
    main()
