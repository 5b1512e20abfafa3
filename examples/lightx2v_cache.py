"""A KV cache pool for LightX2V that compresses with kvreel's methods (github.com/ModelTC/LightX2V at 0d6b494,
lightx2v/common/kvcache).

LightX2V is on no package index, so this file was not tested inside it. tests/python/test_caches.py instead replaces
LightX2V's pool and calls this one in the order of models/networks/wan/infer/self_forcing/transformer_infer.py.

For each layer, a pass calls roll_window if a chunk begins and the window is full, then store_kv, set_ends, k_cache and
v_cache. When a new chunk begins, the pool encodes the finished chunk, and later passes read its decoded values.

    import lightx2v_cache                                  # registers the scheme "kvreel"
    "ar_config": {"kv_cache_scheme": "kvreel", "kvreel_method": "RTN_INT4", "kvreel_tokens_per_frame": 1560, ...}

    runner.model.kv_cache_manager.self_attn_kv_cache.bytes()["resident"]

The decoded values are written back to LightX2V's uncompressed tensors, so the example shows the effect on quality but
saves no memory. bytes() returns the size that the encoded blocks alone would need.
"""
import torch
from lightx2v.common.kvcache.manager import register_self_attn_kv_cache
from lightx2v.common.kvcache.rolling import RollingKVCachePool

import kvreel


class KvreelRollingKVCachePool(RollingKVCachePool):
    """A RollingKVCachePool that encodes each finished chunk.

    method: kvreel.Method or a method's name; options: the method's options, a dict; tokens_per_frame: tokens of a
    latent frame, by default those of a chunk. Other arguments are RollingKVCachePool's."""

    def __init__(self, *args, method, tokens_per_frame=None, options=None, kv_offload=False, **more):
        if kv_offload:
            raise ValueError("kv_offload: true: chunks are coded where they are stored, set it to false")
        super().__init__(*args, kv_offload=False, **more)
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, options)
        self.tokens_per_frame = tokens_per_frame
        self._forget()

    def _forget(self):
        self._open = {}  # layer: (start, end) of the unfinished chunk, as token indices in _k_buffer and _v_buffer
        self._blocks = {}  # layer: list of [index of its first token in _k_buffer, encoded block] of finished chunks

    def _code_last(self, layer_id):
        place = self._open.pop(layer_id, None)
        if not place:
            return
        n, stores = place[1] - place[0], (self._k_buffer, self._v_buffer)
        frame = self.tokens_per_frame or n
        k, v = (x[layer_id, place[0]:place[1]].float().cpu().contiguous() for x in stores)
        block = self.method.encode(k, v, tokens_per_frame=frame, frames_per_chunk=n // frame, layer=layer_id,
                                   n_layers=self._num_layers)
        for store, x in zip(stores, block.decode()):
            store[layer_id, place[0]:place[1]] = torch.from_numpy(x).to(store)
        self._blocks.setdefault(layer_id, []).append([place[0], block])

    def roll_window(self, layer_id, sink_tokens, num_evicted):
        self._code_last(layer_id)
        super().roll_window(layer_id, sink_tokens, num_evicted)
        kept = []
        for start, block in self._blocks.get(layer_id, []):
            if start < sink_tokens:
                kept.append([start, block])
            elif start >= sink_tokens + num_evicted:
                kept.append([start - num_evicted, block])
        self._blocks[layer_id] = kept

    def store_kv(self, k, v, start_idx, end_idx, layer_id):
        if layer_id in self._open and self._open[layer_id] != (start_idx, end_idx):
            self._code_last(layer_id)
        super().store_kv(k, v, start_idx, end_idx, layer_id)
        self._open[layer_id] = (start_idx, end_idx)

    def reset(self):
        super().reset()
        self._forget()

    def bytes(self):
        """Returns the bytes of all layers' finished chunks in sink and window: a dict with bf16, nominal, resident."""
        seen = [block.bytes() for blocks in self._blocks.values() for _, block in blocks]
        return {name: sum(b[name] for b in seen) for name in ("bf16", "nominal", "resident")}


register_self_attn_kv_cache("kvreel", KvreelRollingKVCachePool, kwargs_builder=lambda config, ar_config, kv_quant: {
    "method": ar_config["kvreel_method"], "tokens_per_frame": ar_config.get("kvreel_tokens_per_frame"),
    "kv_offload": ar_config.get("kv_offload", False)})
