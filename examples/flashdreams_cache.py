"""A KV cache for flashdreams that compresses with kvreel's methods (flashdreams 0.1.0, core/attention/kvcache.py).

flashdreams' transformer writes the keys and values of each chunk into a BlockKVCache; each pass of a chunk overwrites
the previous one. Attention reads cached_k() and cached_v(), first the sink, then the window. When a new chunk begins,
KvreelBlockKVCache encodes the finished chunk, and later passes read its decoded values.

    cache = KvreelBlockKVCache("RTN_INT4", k_shape=k_shape, v_shape=k_shape, seq_dim=1, chunk_size=4680,
                               window_size=28080, sink_size=4680, device=device, dtype=torch.bfloat16)
    ...  before_update(i), update(k, v), cached_k(), cached_v(), after_update(i), as with BlockKVCache ...
    cache.bytes()["resident"]

The decoded values are written back to flashdreams' uncompressed tensors, so the example shows the effect on quality
but saves no memory. bytes() returns the size that the encoded blocks alone would need.
"""
import torch
from flashdreams.core.attention.kvcache import BlockKVCache

import kvreel


class KvreelBlockKVCache(BlockKVCache):
    """A BlockKVCache that encodes each finished chunk.

    method: kvreel.Method or a method's name; options: the method's options, a dict; tokens_per_frame: tokens of a
    latent frame, by default those of a chunk. Other arguments are BlockKVCache's; k_shape and v_shape must be equal,
    [1, tokens, heads, dim]."""

    def __init__(self, method, *args, tokens_per_frame=None, options=None, **more):
        super().__init__(*args, **more)
        if self.seq_dim != 1 or len(self.k_shape) != 4 or self.k_shape[0] != 1 or self.k_shape != self.v_shape:
            raise ValueError("shapes %s, %s with tokens at %d: need [1, tokens, heads, dim] of both"
                             % (self.k_shape, self.v_shape, self.seq_dim))
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, options)
        self.place = dict(tokens_per_frame=tokens_per_frame or self.chunk_size,
                          frames_per_chunk=self.chunk_size // (tokens_per_frame or self.chunk_size))
        self.blocks = []  # encoded blocks of the finished, visible chunks: sink first, then the window

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
        if len(self.blocks) * self.chunk_size >= self.k_shape[1]:  # the next chunk evicts the oldest of the window
            del self.blocks[self.sink_size // self.chunk_size]

    def bytes(self):
        """Returns the bytes of all finished, visible chunks: a dict with bf16, nominal and resident bytes."""
        all_of = [block.bytes() for block in self.blocks]
        return {name: sum(b[name] for b in all_of) for name in ("bf16", "nominal", "resident")}
