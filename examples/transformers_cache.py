"""A Cache for Hugging Face transformers that compresses with kvreel's methods.

    cache = KvreelCache("RTN_INT4", layers=model.config.num_hidden_layers)
    model.generate(ids, past_key_values=cache)
    cache.bytes()["resident"]

New tokens stay uncompressed until `chunk` of them have arrived; then they are encoded once, as one chunk. `update`
returns the decoded tokens followed by the uncompressed ones. The batch size must be 1.

Run as a script, it compares the logits of a tiny random Llama with those from transformers' own cache:
examples/transformers_cache.py
"""
import numpy as np
import torch

import kvreel

try:
    from transformers.cache_utils import Cache
except ImportError:  # only generate() requires a Cache; the class also works without transformers
    Cache = object


class KvreelCache(Cache):
    """A Cache that encodes every `chunk` tokens.

    method: kvreel.Method or a method's name; options: the method's options; layers: number of the model's layers;
    chunk: tokens per encoded block."""

    is_compileable = False
    # transformers' mask functions read these flags per layer: no layer has a sliding window or a recurrent state.
    is_sliding = is_linear = is_dummy = [False]

    def __init__(self, method="RTN_INT4", layers=1, chunk=64, **options):
        # Cache.__init__ is not called: it would create its own storage for each layer.
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, **options)
        self.chunk = chunk
        self._coded = [[] for _ in range(layers)]    # per layer: encoded blocks of `chunk` tokens
        self._fresh = [None for _ in range(layers)]  # per layer: uncompressed (k, v), each [1, heads, tokens, dim]

    def update(self, key_states, value_states, layer_idx, cache_kwargs=None, **_):
        """Appends keys and values of one layer, [1, heads, tokens, dim]; returns (k, v) of all tokens for attention.

        Raises ValueError if the batch is not 1."""
        if key_states.shape[0] != 1:
            raise ValueError("a batch of %d: one text at a time" % key_states.shape[0])
        fresh = self._fresh[layer_idx]
        k, v = key_states, value_states
        if fresh is not None:
            k, v = torch.cat([fresh[0], k], 2), torch.cat([fresh[1], v], 2)
        past = [self._decoded(block, k) for block in self._coded[layer_idx]]
        seen = tuple(torch.cat([*(p[side] for p in past), (k, v)[side]], 2) for side in (0, 1))
        # This call returns its own tokens uncompressed, even those that are encoded now; later calls decode them.
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
        """Returns the cache's size: a dict with bf16 and resident bytes, and the number of encoded tokens per layer.

        Resident bytes are those of the encoded blocks, plus 2 bytes per uncompressed value."""
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
    """Runs a tiny random Llama with KvreelCache and without a cache.

    Returns the largest absolute difference of the logits, and the cache's bytes."""
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
