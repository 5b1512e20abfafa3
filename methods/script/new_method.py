"""Codes of some bits with a scale for each head of each token"""
import numpy as np

NAME = "@NAME@"
PAPER = "-"
# name: (default, lowest, highest, what it is); handed to both functions, varied in a sweep as any option.
OPTIONS = {"bits": (8, 2, 8, "bits of a code")}


def encode(k, v, ctx, bits):
    """k, v: float32 [tokens, heads, dim], a chunk's keys and values of one layer.

    ctx: layer, n_layers, heads (a range), chunk, frame, tokens_per_frame, frames_per_chunk, and positions
    [tokens, 3], the frame, row and column that each key was rotated by. Leave ctx out if you do not need it.

    Returns (data, state), which decode gets in a process of its own: bytes, arrays (numpy, torch, whatever
    has DLPack or __array__), or tuples and dicts of them. Every byte is counted."""
    x = np.stack([k, v])
    top = 2 ** (bits - 1) - 1
    scale = (np.abs(x).max(-1, keepdims=True) / top).astype(np.float16)
    q = np.rint(x / np.maximum(scale.astype(np.float32), 1e-7))
    q = (np.clip(q, -top, top) + top).astype(np.uint8)
    codes = np.unpackbits(q[..., None], axis=-1)[..., 8 - bits:]  # the low bits of each
    return np.packbits(codes.reshape(-1)), {"scale": scale}


def decode(data, state, shape, bits):
    """data: bytes; state: as encode returned it; shape: (tokens, heads, dim). Returns k and v."""
    n = 2 * int(np.prod(shape))
    codes = np.unpackbits(np.frombuffer(data, np.uint8))[:n * bits].reshape(n, bits)
    q = codes @ (1 << np.arange(bits - 1, -1, -1)) - (2 ** (bits - 1) - 1)
    x = q.reshape(2, *shape).astype(np.float32) * state["scale"].astype(np.float32)
    return x[0], x[1]
