"""kvreel's methods as a Cache of Hugging Face transformers.

    cache = KvreelCache("RTN_INT4", layers=model.config.num_hidden_layers)
    model.generate(ids, past_key_values=cache)
    cache.bytes()["resident"]

What a call brings in is kept uncoded until CHUNK tokens have come; then they are coded once, as a method
codes a chunk, and stay so. `update` returns what attention reads: the coded tokens decoded, then the others.
One text at a time: tokens of a batch are no tokens of one cache.

Run by itself it holds a tiny random Llama against the model's own cache: examples/transformers_cache.py
"""
import numpy as np
import torch

import kvreel

try:
    from transformers.cache_utils import Cache
except ImportError:  # the class below works by itself: only generate() asks whether it is a Cache
    Cache = object


class KvreelCache(Cache):
    is_compileable = False
    # What masks ask a layer, here of all at once; no layer has a window or a state.
    is_sliding = is_linear = is_dummy = [False]

    def __init__(self, method="RTN_INT4", layers=1, chunk=64, **options):
        # Not the parent's: that makes a store of its own for each layer.
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, **options)
        self.chunk = chunk
        self._coded = [[] for _ in range(layers)]    # blocks of `chunk` tokens
        self._fresh = [None for _ in range(layers)]  # (k, v) [1, heads, tokens, dim], not coded yet

    def update(self, key_states, value_states, layer_idx, cache_kwargs=None, **_):
        """Takes and returns [1, heads, tokens, dim]."""
        if key_states.shape[0] != 1:
            raise ValueError("a batch of %d: one text at a time" % key_states.shape[0])
        fresh = self._fresh[layer_idx]
        k, v = key_states, value_states
        if fresh is not None:
            k, v = torch.cat([fresh[0], k], 2), torch.cat([fresh[1], v], 2)
        past = [self._decoded(block, k) for block in self._coded[layer_idx]]
        seen = tuple(torch.cat([*(p[side] for p in past), (k, v)[side]], 2) for side in (0, 1))
        # The call's own tokens are seen as they are; what is coded of them is read so from the next call on.
        while k.shape[2] >= self.chunk:
            block = [x[0, :, : self.chunk].transpose(0, 1).contiguous().float().cpu() for x in (k, v)]
            self._coded[layer_idx].append(self.method.encode(*block))
            k, v = k[:, :, self.chunk :], v[:, :, self.chunk :]
        self._fresh[layer_idx] = (k, v)
        return seen

    @staticmethod
    def _decoded(block, like):
        return [torch.from_numpy(x).transpose(0, 1)[None].to(like.device, like.dtype) for x in block.decode()]

    def get_seq_length(self, layer_idx=0):
        fresh = self._fresh[layer_idx]
        return self.chunk * len(self._coded[layer_idx]) + (fresh[0].shape[2] if fresh is not None else 0)

    def get_mask_sizes(self, cache_position, layer_idx=0):
        new = cache_position if isinstance(cache_position, int) else len(cache_position)
        return self.get_seq_length(layer_idx) + new, 0

    def get_max_cache_shape(self, layer_idx=0):
        return -1

    def __len__(self):
        return len(self._coded)

    def reset(self):
        self.__init__(self.method, len(self), self.chunk)

    def bytes(self):
        """As kvreel counts: resident is the coded blocks and the uncoded rest."""
        out = {"bf16": 0, "resident": 0, "coded_tokens": self.chunk * len(self._coded[0])}
        for blocks, fresh in zip(self._coded, self._fresh):
            for block in blocks:
                size = block.bytes()
                out["bf16"] += size["bf16"]
                out["resident"] += size["resident"]
            rest = sum(x.numel() * 2 for x in fresh) if fresh is not None else 0
            out["bf16"] += rest
            out["resident"] += rest
        return out


def compare(method, **options):
    """Largest difference of a tiny random Llama's logits from those with its own cache, and the bytes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)
    model = LlamaForCausalLM(config).eval()
    ids = torch.from_numpy(np.random.default_rng(1).integers(0, 97, (1, 80)))
    cache = KvreelCache(method, config.num_hidden_layers, chunk=16, **options)
    with torch.no_grad():
        want = model(ids).logits
        parts = [model(ids[:, at : at + 8], past_key_values=cache, use_cache=True).logits for at in range(0, 80, 8)]
    return float((torch.cat(parts, 1) - want).abs().max()), cache.bytes()


if __name__ == "__main__":
    for name in ("F32", "RTN_INT8", "RTN_INT4", "RTN_INT2"):
        error, size = compare(name)
        print("%-9s logits off by %.2e, %5d bytes, %5d in BF16" % (name, error, size["resident"], size["bf16"]))
