"""Compares sglang's KV cache of causal video models with kvreel's: attention outputs over 9 chunks, with window and sink.

The cache is sglang's own for BF16, and examples/sglang_cache.py with kvreel's methods otherwise."""

import importlib.util
import pathlib
import sys
import types

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "torch")
sys.path[:0] = [str(oracle.ROOT / "python"), str(oracle.ROOT / "examples")]
import torch  # noqa: E402


def packages(name):
    """Registers the parent packages of a dotted name without running their __init__, which imports the whole server."""
    found = importlib.util.find_spec("sglang")
    if found is None:
        oracle.needs("sglang")
    place, parts = pathlib.Path(found.origin).parent.parent, name.split(".")
    for i in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:i]))
        package.__path__ = [str(place.joinpath(*parts[:i]))]
        sys.modules[package.__name__] = package


packages("sglang.multimodal_gen.runtime.layers.kvcache.causal_attention_cache")
oracle.needs("sglang.multimodal_gen.runtime.layers.kvcache.causal_attention_cache")
from rollout import CHUNK, CHUNKS, DIM, FRAME, HEADS, chunks, compare  # noqa: E402
from sglang_cache import CausalSelfAttentionKVCache, KvreelCausalKVCache  # noqa: E402


def engine(cache, x):
    """Calls the cache as sglang's causal Wan model does; attention is PyTorch's. Returns [passes, tokens, heads, dim]."""
    out = []
    for i in range(CHUNKS):
        for q, k, v in x[i]:
            view = cache.update_and_get_attention_kv(key=k, value=v, current_chunk_start=i * CHUNK)
            k, v = view.k.transpose(1, 2), view.v.transpose(1, 2)
            out.append(torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2)[0])
    return torch.stack(out).numpy()


report = oracle.Report("sglang")
for window, sink in ((CHUNKS, 0), (4, 0), (3, 1), (2, 2)):
    x = chunks(window)
    for method in ("BF16", "RTN_INT4", "KIVI_INT2"):
        k, v = torch.zeros(2, 1, (window + sink) * CHUNK, HEADS, DIM)
        cache = CausalSelfAttentionKVCache(k=k, v=v, global_end_index=torch.zeros(1, dtype=torch.long),
                                           local_end_index=torch.zeros(1, dtype=torch.long), sink_tokens=sink * CHUNK)
        if method != "BF16":
            cache = KvreelCausalKVCache.over(cache, method, tokens_per_frame=FRAME)
        compare(report, method, window, sink, x, engine(cache, x), cache)
report.close(args.table)
