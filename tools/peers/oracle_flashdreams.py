"""Compares flashdreams' KV cache with kvreel's: attention outputs over 9 chunks with several windows and sinks.

The cache is flashdreams' own for BF16, and examples/flashdreams_cache.py with kvreel's methods otherwise."""

import sys

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "torch", "flashdreams.core.attention.kvcache")
sys.path[:0] = [str(oracle.ROOT / "python"), str(oracle.ROOT / "examples")]
import torch  # noqa: E402
from flashdreams.core.attention.kvcache import BlockKVCache  # noqa: E402
from flashdreams_cache import KvreelBlockKVCache  # noqa: E402

from rollout import CHUNK, CHUNKS, DIM, FRAME, HEADS, chunks, compare  # noqa: E402


def engine(cache, x):
    """Calls the cache as flashdreams does; attention is PyTorch's. Returns outputs [passes, tokens, heads, dim]."""
    out = []
    for i in range(CHUNKS):
        for q, k, v in x[i]:
            cache.before_update(i)
            cache.update(k, v)
            k, v = (t[:, :int(cache.size)].transpose(1, 2) for t in (cache.cached_k(), cache.cached_v()))
            cache.after_update(i)
            out.append(torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2)[0])
    return torch.stack(out).numpy()


report = oracle.Report("flashdreams")
for window, sink in ((CHUNKS, 0), (4, 0), (3, 1), (2, 2)):
    shape = (1, (window + sink) * CHUNK, HEADS, DIM)
    common = dict(k_shape=shape, v_shape=shape, seq_dim=1, chunk_size=CHUNK, window_size=window * CHUNK,
                  sink_size=sink * CHUNK, device="cpu", dtype=torch.float32)
    x = chunks(window)
    for method in ("BF16", "RTN_INT4", "KIVI_INT2"):
        cache = BlockKVCache(**common) if method == "BF16" else KvreelBlockKVCache(method, tokens_per_frame=FRAME, **common)
        compare(report, method, window, sink, x, engine(cache, x), cache)
report.close(args.table)
