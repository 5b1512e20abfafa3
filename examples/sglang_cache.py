"""kvreel's methods in the KV cache of sglang's causal video models (sglang 0.5.23,
multimodal_gen/runtime/layers/kvcache/causal_attention_cache.py).

Each block of its causal Wan model calls update_and_get_attention_kv(key=, value=, current_chunk_start=) of its own cache,
pass by pass, and attends to the view it gets. When a later chunk begins, the last one is final: it is coded, and from then
on the model reads the decoded values. Where the denoising stage makes its caches
(pipelines_core/stages/causal_denoising.py), wrap each:

    caches = [KvreelCausalKVCache.over(cache, "RTN_INT4", tokens_per_frame=1560) for cache in caches]
    ...
    caches[0].bytes()["resident"]

Values are decoded into the cache's own tensors: this measures quality and counts bytes.
"""
import dataclasses

import torch
from sglang.multimodal_gen.runtime.layers.kvcache.causal_attention_cache import CausalSelfAttentionKVCache

import kvreel


class KvreelCausalKVCache(CausalSelfAttentionKVCache):
    @classmethod
    def over(cls, cache, method, tokens_per_frame=None, options=None):
        self = cls(**{f.name: getattr(cache, f.name) for f in dataclasses.fields(cache)})
        if self.k.shape[0] != 1:
            raise ValueError("a batch of %d: one video at a time" % self.k.shape[0])
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, options)
        self.tokens_per_frame = tokens_per_frame
        self.blocks = []  # (first token of the video, block) of final chunks that are visible
        self.last = None  # (first token of the video, tokens) of the chunk that is not final
        return self

    def update_and_get_attention_kv(self, *, key, value, current_chunk_start, **more):
        if key.shape[2] != self.k.shape[2]:
            raise ValueError("keys of %d heads in a cache of %d: one part of the heads cannot be coded" %
                             (key.shape[2], self.k.shape[2]))
        if self.last and current_chunk_start >= sum(self.last):
            self._code_last()
        view = super().update_and_get_attention_kv(key=key, value=value, current_chunk_start=current_chunk_start, **more)
        self.last = current_chunk_start, key.shape[1]
        global_end, local_end = self._read_indices()
        sink = self._effective_sink_tokens()
        oldest = global_end - local_end + sink  # token behind the sink
        self.blocks = [(first, block) for first, block in self.blocks if first < sink or first >= oldest]
        return view

    def _code_last(self):
        first, n = self.last
        global_end, local_end = self._read_indices()
        place = slice(local_end - (global_end - first), local_end - (global_end - first) + n)
        frame = self.tokens_per_frame or n
        k, v = (x[0, place].float().cpu().contiguous() for x in (self.k, self.v))
        block = self.method.encode(k, v, tokens_per_frame=frame, frames_per_chunk=n // frame)
        for store, x in zip((self.k, self.v), block.decode()):
            store[0, place] = torch.from_numpy(x).to(store)
        self.blocks.append((first, block))

    def reset_indices(self):
        super().reset_indices()
        self.blocks, self.last = [], None

    def bytes(self):
        """Of all final chunks that are visible, sinks included."""
        seen = [block.bytes() for _, block in self.blocks]
        return {name: sum(b[name] for b in seen) for name in ("bf16", "nominal", "resident")}
