"""Integer codes with one FP16 scale per token and head"""
import numpy as np

NAME = "@NAME@"
PAPER = "-"
# name: (default, lowest, highest, description). kvreel passes options to both functions; sweeps can vary them.
OPTIONS = {"bits": (8, 2, 8, "bits of a code")}


def encode(k, v, ctx, bits):
    """Encodes one layer's keys and values of a chunk; k, v: float32 [tokens, heads, dim].

    ctx: layer, n_layers, heads (a range), chunk, frame, tokens_per_frame, frames_per_chunk, and positions
    [tokens, 3], the frame, row and column of each key's RoPE. The parameter ctx is optional.

    Returns (data, state) for decode, which runs in another process. Each is bytes, an array (NumPy, torch, or
    any type with DLPack or __array__), or a tuple, list or dict of these. All stored bytes count as the size."""
    x = np.stack([k, v])
    top = 2 ** (bits - 1) - 1
    scale = (np.abs(x).max(-1, keepdims=True) / top).astype(np.float16)
    q = np.rint(x / np.maximum(scale.astype(np.float32), 1e-7))
    q = (np.clip(q, -top, top) + top).astype(np.uint8)
    codes = np.unpackbits(q[..., None], axis=-1)[..., 8 - bits:]  # the low `bits` bits of each code
    return np.packbits(codes.reshape(-1)), {"scale": scale}


def decode(data, state, shape, bits):
    """Returns decoded k and v, both of shape (tokens, heads, dim). data: bytes; state: as returned by encode."""
    n = 2 * int(np.prod(shape))
    codes = np.unpackbits(np.frombuffer(data, np.uint8))[:n * bits].reshape(n, bits)
    q = codes @ (1 << np.arange(bits - 1, -1, -1)) - (2 ** (bits - 1) - 1)
    x = q.reshape(2, *shape).astype(np.float32) * state["scale"].astype(np.float32)
    return x[0], x[1]
