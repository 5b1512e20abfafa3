"""A replacement for LightX2V's cache pool and registry (lightx2v/common/kvcache at 0d6b494).

It has only the functions that LightX2V's model calls."""

import sys
import types

import torch

registry = {}


class RollingKVCachePool:
    """Keys and values of all layers in `_k_buffer`, `_v_buffer` [layers, tokens, heads, dim]; sink tokens first."""

    def __init__(self, num_layers, cache_size, num_heads, head_dim, dtype, device, *, kv_offload=False):
        assert not kv_offload
        self._num_layers, self._cache_size = num_layers, cache_size
        shape = num_layers, cache_size, num_heads, head_dim
        self._k_buffer, self._v_buffer = torch.zeros(2, *shape, dtype=dtype, device=device)
        self._ends = {}

    def store_kv(self, k, v, start_idx, end_idx, layer_id):
        self._k_buffer[layer_id, start_idx:end_idx], self._v_buffer[layer_id, start_idx:end_idx] = k, v

    def roll_window(self, layer_id, sink_tokens, num_evicted):
        end = self._ends[layer_id][1]
        for x in (self._k_buffer[layer_id], self._v_buffer[layer_id]):
            x[sink_tokens:end - num_evicted] = x[sink_tokens + num_evicted:end].clone()

    def set_ends(self, layer_id, global_end, local_end):
        self._ends[layer_id] = global_end, local_end

    def ends(self, layer_id):
        return self._ends.get(layer_id, (0, 0))

    def k_cache(self, layer_id, attn_start=None, local_end=None):
        return self._k_buffer[layer_id][attn_start:local_end]

    def v_cache(self, layer_id, attn_start=None, local_end=None):
        return self._v_buffer[layer_id][attn_start:local_end]

    def reset(self):
        self._k_buffer.zero_()
        self._v_buffer.zero_()


def install():
    for name in ("lightx2v", "lightx2v.common", "lightx2v.common.kvcache", "lightx2v.common.kvcache.manager",
                 "lightx2v.common.kvcache.rolling"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["lightx2v.common.kvcache.rolling"].RollingKVCachePool = RollingKVCachePool
    sys.modules["lightx2v.common.kvcache.manager"].register_self_attn_kv_cache = (
        lambda scheme, cache_cls, *, step=False, kwargs_builder=None: registry.update({scheme: (cache_cls, kwargs_builder)}))


def attend(pool, layer, q, k, v, start, sink):
    """Runs one pass of a layer over tokens [start, start + len(k)) in the order of LightX2V's transformer_infer.py.

    q, k, v and the result: [tokens, heads, dim]; sink: number of sink tokens."""
    n = len(k)
    global_end, local_end = pool.ends(layer)
    evicted = n + local_end - pool._cache_size if start + n > global_end else 0
    if evicted > 0:
        pool.roll_window(layer, sink, evicted)
        local_end -= evicted
    local_end += start + n - global_end
    pool.store_kv(k, v, local_end - n, local_end, layer)
    pool.set_ends(layer, start + n, local_end)
    k, v = (x(layer, 0, local_end).transpose(0, 1)[None] for x in (pool.k_cache, pool.v_cache))
    return torch.nn.functional.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v)[0].transpose(0, 1)
