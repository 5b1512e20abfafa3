"""A KV cache for sglang's causal video models that compresses with kvreel's methods (sglang 0.5.23,
multimodal_gen/runtime/layers/kvcache/causal_attention_cache.py).

In each pass, a transformer block of sglang's causal Wan model calls update_and_get_attention_kv(key=, value=,
current_chunk_start=) of its own cache and attends to the keys and values that the call returns. When a new chunk
begins, KvreelCausalKVCache encodes the finished chunk, and later passes read its decoded values. To use it, wrap the
caches that the denoising stage creates (pipelines_core/stages/causal_denoising.py):

    caches = [KvreelCausalKVCache.over(cache, "RTN_INT4", tokens_per_frame=1560) for cache in caches]
    ...
    caches[0].bytes()["resident"]

The decoded values are written back to sglang's uncompressed tensors, so the example shows the effect on quality but
saves no memory. bytes() returns the size that the encoded blocks alone would need.
"""
import dataclasses

import torch
from sglang.multimodal_gen.runtime.layers.kvcache.causal_attention_cache import CausalSelfAttentionKVCache

import kvreel


class KvreelCausalKVCache(CausalSelfAttentionKVCache):
    @classmethod
    def over(cls, cache, method, tokens_per_frame=None, options=None):
        """Returns a compressing cache that uses the tensors of `cache`, a CausalSelfAttentionKVCache.

        method: kvreel.Method or a method's name; options: the method's options, a dict; tokens_per_frame: tokens of a
        latent frame, by default those of a chunk. Raises ValueError if the batch is not 1."""
        self = cls(**{f.name: getattr(cache, f.name) for f in dataclasses.fields(cache)})
        if self.k.shape[0] != 1:
            raise ValueError("a batch of %d: one video at a time" % self.k.shape[0])
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, options)
        self.tokens_per_frame = tokens_per_frame
        self.blocks = []  # (index of the first token in the video, encoded block) of finished, visible chunks
        self.last = None  # (index of the first token in the video, number of tokens) of the unfinished chunk
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
        oldest = global_end - local_end + sink  # index in the video of the window's first token
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
        """Returns the bytes of all finished, visible chunks with sinks: a dict with bf16, nominal and resident."""
        seen = [block.bytes() for _, block in self.blocks]
        return {name: sum(b[name] for b in seen) for name in ("bf16", "nominal", "resident")}
