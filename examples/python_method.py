"""Round to nearest with one step per token and head, written in Python"""
import numpy as np

NAME = "PY_INT4"
PAPER = "-"
OPTIONS = {"bits": (4, 2, 4, "bits of a code, of which two share a byte")}


def encode(k, v, bits):
    x = np.stack([k, v])  # [2, tokens, heads, dim]
    top = 2 ** (bits - 1) - 1
    step = (np.abs(x).max(-1, keepdims=True) / top).astype(np.float16)
    q = np.rint(x / np.maximum(step.astype(np.float32), 1e-8))
    q = (np.clip(q, -top, top) + top).astype(np.uint8)
    return q[..., ::2] | q[..., 1::2] << 4, step


def decode(data, state, shape, bits):
    tokens, heads, dim = shape
    data = np.frombuffer(data, np.uint8).reshape(2, tokens, heads, dim // 2)
    step = np.frombuffer(state, np.float16).reshape(2, tokens, heads, 1)
    q = np.stack([data & 15, data >> 4], -1).reshape(2, tokens, heads, dim)
    x = (q.astype(np.float32) - (2 ** (bits - 1) - 1)) * step
    return x[0], x[1]
