"""kvreel's methods as the KV manager of Self-Forcing's pipeline.

Its causal Wan model (github.com/guandeh17/Self-Forcing) is handed, for every layer, a dict that holds the
whole rollout's keys and values, [batch, tokens, heads, dim] in "k" and "v", and counts in
"global_end_index" and "local_end_index"; a pass writes its tokens at current_start, and attends to all
before its end. The last pass of a chunk, its cache-update pass, writes the keys and values that later chunks
read. The model has no other access to its cache. A manager therefore compresses the cache after each chunk's
cache-update pass:

    kv = KvreelManager("RTN_INT4", pipeline.kv_cache1, tokens_per_frame=1560)
    ...  the pipeline's loop: denoising steps, then the pass at timestep 0 ...
    kv.commit(current_start, n_tokens)        # codes the chunk; from now on the pipeline reads what was coded
    kv.bytes()["resident"]

Values are decoded into the pipeline's own tensors, which this study of quality keeps; what a cache of coded
blocks alone would take is what bytes() tells.
"""
import torch

import kvreel


class KvreelManager:
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
        """After the cache-update pass of the chunk at tokens [current_start, current_start + n_tokens)."""
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
        """Another video."""
        self.cache.reset()

    def bytes(self):
        return self.cache.bytes()


class TinyCausalModel(torch.nn.Module):
    """What the pipeline calls, in small: the same cache, the same arguments, random weights."""

    def __init__(self, layers=2, heads=2, dim=32):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(heads * dim, 3 * heads * dim) for _ in range(layers))

    def forward(self, x, timestep, kv_cache, current_start):
        """x [1, tokens, heads * dim]"""
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
    """The pipeline's loop over a tiny random model: all chunks [tokens, width], and the manager."""
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
