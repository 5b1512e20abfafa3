"""rollout.py - a rollout of one attention layer, for engines whose KV caches are compared with kvreel's."""

import kvreel
import numpy as np
import torch

FRAME, FRAMES, HEADS, DIM, CHUNKS, PASSES = 16, 3, 2, 32, 9, 2
CHUNK = FRAME * FRAMES


def chunks(seed):
    """Noisy passes and a clean one; all rounded to BF16, as both caches hold them."""
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
    """`theirs`: what the engine's attention gave, over `cache` of one layer; its blocks are kvreel's but for BF16."""
    mine, held = ours(method, x, window, sink)
    off = float(np.abs(mine - theirs).max())
    # Two softmaxes in F32 over at most 432 tokens of values below 5: 432 roundings of 2^-24 of each.
    report.add(method, off <= 432 * 5 * 2.0 ** -24, "window %d, sink %d chunks: attention of %d passes off by %.1g at most"
               % (window, sink, len(mine), off))
    if method != "BF16":
        per_chunk = cache.bytes()["resident"] / len(cache.blocks), held["resident"] / CHUNKS
        report.add(method, per_chunk[0] == per_chunk[1], "%g bytes a chunk, kvreel's cache %g" % per_chunk)
