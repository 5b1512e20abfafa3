"""flashdreams' KV cache, sink and window, beside kvreel's cache: what attention gives over many chunks, uncoded and
with kvreel's methods inside it (examples/flashdreams_cache.py)."""

import sys

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "torch", "flashdreams.core.attention.kvcache")
sys.path[:0] = [str(oracle.ROOT / "python"), str(oracle.ROOT / "examples")]
import torch  # noqa: E402
from flashdreams.core.attention.kvcache import BlockKVCache  # noqa: E402
from flashdreams_cache import KvreelBlockKVCache  # noqa: E402

import kvreel  # noqa: E402

FRAME, FRAMES, HEADS, DIM, CHUNKS, PASSES = 16, 3, 2, 32, 9, 2
CHUNK = FRAME * FRAMES


def chunks(seed):
    """Noisy passes and a clean one; all rounded to BF16, as both caches hold them."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(CHUNKS, PASSES, 3, 1, CHUNK, HEADS, DIM, generator=g).bfloat16().float()


def engine(cache, x):
    """flashdreams' calls, a softmax of torch behind them."""
    out = []
    for i in range(CHUNKS):
        for q, k, v in x[i]:
            cache.before_update(i)
            cache.update(k, v)
            k, v = (t[:, :int(cache.size)].transpose(1, 2) for t in (cache.cached_k(), cache.cached_v()))
            cache.after_update(i)
            out.append(torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2)[0])
    return torch.stack(out).numpy()


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


report = oracle.Report("flashdreams")
for window, sink in ((CHUNKS, 0), (4, 0), (3, 1), (2, 2)):
    shape = (1, (window + sink) * CHUNK, HEADS, DIM)
    common = dict(k_shape=shape, v_shape=shape, seq_dim=1, chunk_size=CHUNK, window_size=window * CHUNK,
                  sink_size=sink * CHUNK, device="cpu", dtype=torch.float32)
    x = chunks(window)
    for method in ("BF16", "RTN_INT4", "KIVI_INT2"):
        cache = BlockKVCache(**common) if method == "BF16" else KvreelBlockKVCache(method, tokens_per_frame=FRAME, **common)
        theirs, (mine, held) = engine(cache, x), ours(method, x, window, sink)
        off = float(np.abs(mine - theirs).max())
        said = "window %d, sink %d chunks: attention of %d passes off by %.1g at most" % (window, sink, len(mine), off)
        # Two softmaxes in F32 over at most 432 tokens of values below 5: 432 roundings of 2^-24 of each.
        report.add(method, off <= 432 * 5 * 2.0 ** -24, said)
        if method != "BF16":
            b = cache.bytes()
            per_chunk = b["resident"] / len(cache.blocks), held["resident"] / CHUNKS
            report.add(method, per_chunk[0] == per_chunk[1], "%g bytes a chunk, kvreel's cache %g" % per_chunk)
report.close(args.table)
