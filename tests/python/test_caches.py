"""Tests the caches in examples/ for other projects' pipelines on tiny random models: test_caches.py EXAMPLES"""

import sys

from checks import check, finish, refused, skip

sys.path.insert(0, sys.argv[1])
try:
    import torch
except ImportError:
    skip("caches for Self-Forcing, LightX2V and transformers", "Python has no torch")
    finish()

import kvreel
import lightx2v_pool
from self_forcing_cache import KvreelManager, rollout
from transformers_cache import KvreelCache, compare

# --- Self-Forcing ---------------------------------------------------------------------------

want, _ = rollout()
off = {}
for method in ("BF16", "RTN_INT8", "RTN_INT4", "RTN_INT2"):
    got, manager = rollout(method)
    off[method] = float((got - want).abs().max())
    size = manager.bytes()
    check("Self-Forcing, %s: the first chunk equals that without kvreel's cache" % method, torch.equal(got[:48], want[:48]))
    check("Self-Forcing, %s: the error of later chunks is below 1, but not 0" % method, 0 < off[method] < 1, off[method])
    check("Self-Forcing, %s: the cache has three chunks of two layers" % method, size["bf16"] == 2 * 2 * 144 * 64 * 2 and
          (size["resident"] < size["bf16"]) == (method != "BF16"), size)
    stored = manager.kv_cache[1]["k"][0].numpy()
    check("Self-Forcing, %s: the pipeline's tensors equal the decoded keys" % method, (stored == manager.cache.read(1)[0]).all())
check("Self-Forcing: the error grows with fewer bits", off["BF16"] < off["RTN_INT8"] < off["RTN_INT4"] < off["RTN_INT2"], off)
refused("Self-Forcing: a chunk of half a frame", ValueError, "no whole frames", lambda: manager.commit(8, 16))
two = [{"k": torch.zeros(2, 48, 2, 32), "v": torch.zeros(2, 48, 2, 32)}]
refused("Self-Forcing: a batch of two videos", ValueError, "one video", lambda: KvreelManager("BF16", two, 16))
manager.reset()
check("Self-Forcing: reset() empties the cache", manager.bytes()["resident"] == 0)

# --- LightX2V: window and sink, 2 layers, 2 passes per chunk ---------------------------------------

lightx2v_pool.install()
import lightx2v_cache  # noqa: E402,F401

cls, arguments = lightx2v_pool.registry["kvreel"]
CHUNK, FRAME, CHUNKS = 48, 16, 7


def rolled(method, window, sink):
    """Runs the same rollout through LightX2V's pool and kvreel's cache.

    Returns the largest difference of attention outputs, (the pool's, kvreel's) bytes per chunk and layer, the number of
    the pool's encoded blocks, and the pool's bytes after reset()."""
    ar = {"kvreel_method": method, "kvreel_tokens_per_frame": FRAME}
    pool = cls(2, (window + sink) * CHUNK, 2, 32, torch.float32, "cpu", **arguments({}, ar, {}))
    cache = kvreel.Method(method).cache(n_layers=2, n_heads=2, head_dim=32, tokens_per_frame=FRAME, frames_per_chunk=3,
                                        capacity_frames=3 * CHUNKS, window_frames=3 * (window + sink), sink_frames=3 * sink)
    x = torch.randn(CHUNKS, 2, 2, 3, CHUNK, 2, 32, generator=torch.Generator().manual_seed(5)).bfloat16().float()
    off = 0.0
    for i in range(CHUNKS):
        for p in range(2):
            with cache.chunk(frame0=3 * i, n_frames=3, clean=p == 1, index=p):
                for layer in range(2):
                    q, k, v = x[i, p, layer]
                    theirs = lightx2v_pool.attend(pool, layer, q, k, v, i * CHUNK, sink * CHUNK)
                    off = max(off, float((torch.from_numpy(cache.attend(layer, q, k, v)) - theirs).abs().max()))
    held = sum(len(blocks) for blocks in pool._blocks.values())
    mine = pool.bytes()["resident"] / held, cache.bytes()["resident"] / (2 * CHUNKS)
    pool.reset()
    return off, mine, held, pool.bytes()["resident"]


for method in ("BF16", "RTN_INT4", "KIVI_INT2"):
    for window, sink in ((CHUNKS, 0), (4, 0), (3, 1), (2, 2)):
        off, size, held, empty = rolled(method, window, sink)
        name = "LightX2V, %s, window %d, sink %d" % (method, window, sink)
        # LightX2V and kvreel each sum at most 336 values in F32, and |v| < 5: up to 336 rounding errors of 5 * 2^-24.
        check(name + ": attention equals that of kvreel's cache", off <= 336 * 5 * 2.0 ** -24, off)
        check(name + ": only visible chunks are stored, and reset() frees them", size[0] == size[1] and held == 2 * (min(window + sink, CHUNKS) - 1) and
              empty == 0, (size, held, empty))
refused("LightX2V with kv_offload", ValueError, "kv_offload", lambda: cls(
    2, 96, 2, 32, torch.float32, "cpu", **arguments({}, {"kvreel_method": "BF16", "kv_offload": True}, {})))

# --- transformers: direct calls of KvreelCache.update(), as a model's attention makes them ------------

torch.manual_seed(3)
k, v = torch.randn(1, 2, 40, 32), torch.randn(1, 2, 40, 32)


def fed(method, chunk=16, layers=1):
    cache = KvreelCache(method, layers, chunk=chunk)
    for at in range(0, 40, 4):
        seen = cache.update(k[:, :, at:at + 4], v[:, :, at:at + 4], 0)
    return cache, seen


cache, seen = fed("F32")
check("transformers: an F32 cache returns the keys and values unchanged", torch.equal(seen[0], k) and torch.equal(seen[1], v))
check("transformers: the cache's length is 40 tokens", cache.get_seq_length() == 40 and len(cache) == 1)
check("transformers: the next mask covers cached and new tokens", cache.get_mask_sizes(torch.arange(3)) == (43, 0))
cache, seen = fed("RTN_INT4")
block = kvreel.Method("RTN_INT4").encode(k[0, :, :16].transpose(0, 1).contiguous(), v[0, :, :16].transpose(0, 1).contiguous())
check("transformers: complete chunks are returned decoded", torch.equal(seen[0][0, :, :16], torch.from_numpy(block.decode()[0]).transpose(0, 1)))
check("transformers: the tokens after the last complete chunk are unchanged", torch.equal(seen[0][:, :, 32:], k[:, :, 32:]) and torch.equal(seen[1][:, :, 32:], v[:, :, 32:]))
check("transformers: the size is that of two blocks and 8 F32 tokens", cache.bytes()["resident"] == 2 * block.bytes()["resident"] + 2 * 2 * 8 * 2 * 32)
refused("transformers: a batch of two texts", ValueError, "one text", lambda: cache.update(torch.randn(2, 2, 4, 32), torch.randn(2, 2, 4, 32), 0))
cache.reset()
check("transformers: reset() empties the cache", cache.get_seq_length() == 0 and cache.bytes()["resident"] == 0)
try:
    import transformers
except ImportError:
    skip("a tiny Llama of transformers", "Python has no transformers")
    finish()
error, size = compare("F32")
check("a tiny Llama of transformers %s: an F32 cache does not change the logits" % transformers.__version__, error <= 1e-4, error)
coded = {m: compare(m) for m in ("RTN_INT8", "RTN_INT4", "RTN_INT2")}
check("a tiny Llama: the error of the logits grows with fewer bits", error < coded["RTN_INT8"][0] < coded["RTN_INT4"][0] < coded["RTN_INT2"][0], coded)
check("a tiny Llama: the size falls with fewer bits", coded["RTN_INT2"][1]["resident"] < coded["RTN_INT4"][1]["resident"] < size["bf16"])
finish()
