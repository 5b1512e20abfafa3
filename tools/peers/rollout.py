"""rollout.py - a rollout of one attention layer with random inputs, to compare other engines' KV caches with kvreel's."""

import kvreel
import numpy as np
import torch

FRAME, FRAMES, HEADS, DIM, CHUNKS, PASSES = 16, 3, 2, 32, 9, 2
CHUNK = FRAME * FRAMES


def chunks(seed):
    """Returns random q, k, v of all passes, [chunks, passes, 3, 1, tokens, heads, dim], float32 rounded to BF16.

    The last pass of each chunk is the clean (cache-update) pass."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(CHUNKS, PASSES, 3, 1, CHUNK, HEADS, DIM, generator=g).bfloat16().float()


def ours(method, x, window, sink):
    cache = kvreel.Method(method).cache(
        n_layers=1, n_heads=HEADS, head_dim=DIM, tokens_per_frame=FRAME, frames_per_chunk=FRAMES,
        capacity_frames=CHUNKS * FRAMES, window_frames=(window + sink) * FRAMES, sink_frames=sink * FRAMES)
    out = []
    for i in range(CHUNKS):
        for p in range(PASSES):
            with cache.chunk(frame0=i * FRAMES, n_frames=FRAMES, clean=p == PASSES - 1, index=p):
                out.append(cache.attend(0, *(t[0].contiguous().numpy() for t in x[i, p])))
    return np.stack(out), cache.bytes()


def compare(report, method, window, sink, x, theirs, cache):
    """Reports whether the engine's attention outputs equal kvreel's, and except for BF16 the bytes per chunk.

    theirs: the engine's outputs [passes, tokens, heads, dim]; cache: the engine's cache of one layer."""
    mine, held = ours(method, x, window, sink)
    off = float(np.abs(mine - theirs).max())
    # The engine and kvreel each sum at most 432 values in F32, and |v| < 5: up to 432 rounding errors of 5 * 2^-24.
    report.add(method, off <= 432 * 5 * 2.0 ** -24, "window %d, sink %d chunks: attention of %d passes differs by at most %.1g"
               % (window, sink, len(mine), off))
    if method != "BF16":
        per_chunk = cache.bytes()["resident"] / len(cache.blocks), held["resident"] / CHUNKS
        report.add(method, per_chunk[0] == per_chunk[1], "%g bytes per chunk, kvreel's cache %g" % per_chunk)
