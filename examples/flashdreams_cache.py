"""kvreel's methods in the KV cache of flashdreams (flashdreams 0.1.0, core/attention/kvcache.py).

Its transformer writes each chunk into a BlockKVCache, pass by pass into the same place, and attends to
cached_k() and cached_v(), sink first, then the window. When the next chunk begins, the last one is final: it
is coded, and from then on the transformer reads what was coded.

    cache = KvreelBlockKVCache("RTN_INT4", k_shape=k_shape, v_shape=k_shape, seq_dim=1, chunk_size=4680,
                               window_size=28080, sink_size=4680, device=device, dtype=torch.bfloat16)
    ...  before_update(i), update(k, v), cached_k(), cached_v(), after_update(i), as ever ...
    cache.bytes()["resident"]

Values are decoded into the cache's own tensors, so this measures quality and counts bytes; what a cache of coded
blocks alone takes is what bytes() tells.
"""
import torch
from flashdreams.core.attention.kvcache import BlockKVCache

import kvreel


class KvreelBlockKVCache(BlockKVCache):
    def __init__(self, method, *args, tokens_per_frame=None, options=None, **more):
        super().__init__(*args, **more)
        if self.seq_dim != 1 or len(self.k_shape) != 4 or self.k_shape[0] != 1 or self.k_shape != self.v_shape:
            raise ValueError("shapes %s, %s with tokens at %d: need [1, tokens, heads, dim] of both"
                             % (self.k_shape, self.v_shape, self.seq_dim))
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, options)
        self.place = dict(tokens_per_frame=tokens_per_frame or self.chunk_size,
                          frames_per_chunk=self.chunk_size // (tokens_per_frame or self.chunk_size))
        self.blocks = []  # of the chunks that are final and visible: sink first, then the window

    def before_update(self, chunk_idx):
        if chunk_idx == self._prev_chunk_idx + 1 and chunk_idx > 0:
            self._code_last()
        super().before_update(chunk_idx)

    def _code_last(self):
        place = slice(self._n_cached - self.chunk_size, self._n_cached)
        k, v = (x[0, place].float().cpu().contiguous() for x in (self._k, self._v))
        block = self.method.encode(k, v, **self.place)
        for store, x in zip((self._k, self._v), block.decode()):
            store[0, place] = torch.from_numpy(x).to(store)
        self.blocks.append(block)
        if len(self.blocks) * self.chunk_size >= self.k_shape[1]:  # the next chunk pushes the oldest out
            del self.blocks[self.sink_size // self.chunk_size]

    def bytes(self):
        """Of all visible chunks that are final."""
        all_of = [block.bytes() for block in self.blocks]
        return {name: sum(b[name] for b in all_of) for name in ("bf16", "nominal", "resident")}
