"""A KV cache manager for Self-Forcing's pipeline (github.com/guandeh17/Self-Forcing) that uses kvreel's methods.

The causal Wan model receives one dict per layer. "k" and "v" have the keys and values of the whole rollout, [batch,
tokens, heads, dim]; "global_end_index" and "local_end_index" count the tokens. A pass writes its tokens at
current_start and attends to these tokens and all earlier ones. A chunk's last pass, the cache-update pass, writes the
keys and values that later chunks read. The manager therefore compresses the cache after each cache-update pass:

    kv = KvreelManager("RTN_INT4", pipeline.kv_cache1, tokens_per_frame=1560)
    ...  the pipeline's loop: denoising steps, then the pass at timestep 0 ...
    kv.commit(current_start, n_tokens)        # encodes the chunk; later passes read its decoded values
    kv.bytes()["resident"]

The decoded values are written back to the pipeline's uncompressed tensors, so the example shows the effect on quality
but saves no memory. bytes() returns the size that the encoded blocks alone would need.
"""
import torch

import kvreel


class KvreelManager:
    """Compresses the pipeline's kv_cache, a list of dicts per layer, with a method.

    method: kvreel.Method or a method's name; options: the method's options; tokens_per_frame: tokens of a latent
    frame; frames_per_chunk: latent frames of a chunk. Raises ValueError if the batch is not 1."""

    def __init__(self, method, kv_cache, tokens_per_frame, frames_per_chunk=3, **options):
        self.method = method if isinstance(method, kvreel.Method) else kvreel.Method(method, **options)
        self.kv_cache = kv_cache
        self.chunk = tokens_per_frame * frames_per_chunk
        k = kv_cache[0]["k"]
        if k.shape[0] != 1:
            raise ValueError("a batch of %d: one video at a time" % k.shape[0])
        tokens, heads, dim = k.shape[1:]
        self.cache = self.method.cache(n_layers=len(kv_cache), n_heads=heads, head_dim=dim,
                                       tokens_per_frame=tokens_per_frame, frames_per_chunk=frames_per_chunk,
                                       capacity_frames=tokens // tokens_per_frame)
        self.tokens_per_frame = tokens_per_frame

    def commit(self, current_start, n_tokens):
        """Compresses the chunk at tokens [current_start, current_start + n_tokens).

        Call it after the chunk's cache-update pass. Raises ValueError if the chunk is not whole frames, or if the
        method evicts tokens."""
        s, end = self.tokens_per_frame, current_start + n_tokens
        if current_start % s or n_tokens % s:
            raise ValueError("tokens %d..%d: no whole frames of %d" % (current_start, end, s))
        with self.cache.chunk(current_start // s, n_tokens // s, clean=True) as cache:
            for layer, store in enumerate(self.kv_cache):
                cache.commit(layer, *(store[side][0, current_start:end].contiguous().float().cpu() for side in "kv"))
        for layer, store in enumerate(self.kv_cache):
            held = self.cache.read(layer)
            if len(held[0]) != end:
                raise ValueError("%s gives tokens up: the pipeline's tensors have no place for that" % self.method.name)
            for side, x in zip("kv", held):
                store[side][0, :end] = torch.from_numpy(x).to(store[side])

    def reset(self):
        """Empties the cache before another video."""
        self.cache.reset()

    def bytes(self):
        return self.cache.bytes()


class TinyCausalModel(torch.nn.Module):
    """A small model with random weights and the arguments of Self-Forcing's causal Wan model."""

    def __init__(self, layers=2, heads=2, dim=32):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(heads * dim, 3 * heads * dim) for _ in range(layers))

    def forward(self, x, timestep, kv_cache, current_start):
        """Runs one pass over x [1, tokens, heads * dim]; writes its keys and values to kv_cache at current_start."""
        n, end = x.shape[1], current_start + x.shape[1]
        for linear, store in zip(self.qkv, kv_cache):
            q, k, v = linear(x).view(1, n, 3, self.heads, self.dim).unbind(2)
            store["k"][:, current_start:end], store["v"][:, current_start:end] = k, v
            store["global_end_index"].fill_(end)
            store["local_end_index"].fill_(end)
            out = torch.nn.functional.scaled_dot_product_attention(
                *(t.transpose(1, 2) for t in (q, store["k"][:, :end], store["v"][:, :end])))
            x = x + out.transpose(1, 2).reshape(1, n, -1)
        return (1 - timestep) * torch.tanh(x)


def rollout(method=None, chunks=3, tokens_per_frame=16, frames_per_chunk=3, **options):
    """Runs the pipeline's loop with TinyCausalModel; returns (latents [tokens, 64] of all chunks, manager or None).

    method None keeps the cache uncompressed."""
    torch.manual_seed(2)
    model, width, n = TinyCausalModel(), 64, tokens_per_frame * frames_per_chunk
    shape = (1, chunks * n, model.heads, model.dim)
    kv_cache = [{"k": torch.zeros(shape), "v": torch.zeros(shape), "global_end_index": torch.zeros(1, dtype=torch.long),
                 "local_end_index": torch.zeros(1, dtype=torch.long)} for _ in model.qkv]
    manager = KvreelManager(method, kv_cache, tokens_per_frame, frames_per_chunk, **options) if method else None
    noise, out = torch.randn(chunks, 1, n, width), []
    with torch.no_grad():
        for i in range(chunks):
            x = noise[i]
            for timestep in (0.75, 0.5, 0.25):
                x = model(x, timestep, kv_cache, i * n)
            model(x, 0.0, kv_cache, i * n)
            if manager:
                manager.commit(i * n, n)
            out.append(x[0])
    return torch.cat(out), manager


if __name__ == "__main__":
    want, _ = rollout()
    for name in ("F32", "BF16", "RTN_INT8", "RTN_INT4", "RTN_INT2"):
        got, manager = rollout(name)
        size = manager.bytes()
        print("%-9s off by %.2e, %6d bytes, %6d in BF16" % (name, (got - want).abs().max(), size["resident"], size["bf16"]))
