"""kvtrace: records the attention calls of a PyTorch model as a trace that kvreel replays.

    import kvtrace
    with kvtrace.record("mine.kvtrace", model="my-model", licence="Apache-2.0", layers=30,
                        frames_per_chunk=3, grid=(30, 52), passes=5):
        pipeline.inference(...)

This file needs only PyTorch: copy it into the folder of your program. Each attention call is written to its own
file immediately, so a trace may be larger than memory. index.json is written when the `with` block ends without an
exception. kvreel's docs/kvtrace.md defines the format; `kvreel trace check` tests whether a trace conforms.

By default the recorder hooks torch.nn.functional.scaled_dot_product_attention. `targets` replaces it with a list of
(object, name, layout), one per function object.name. The function's first three arguments must be q, k and v (or
query, key and value). The layout is "bthd" for [batch, tokens, heads, channels] (flash-attention) or "bhtd" for
[batch, heads, tokens, channels] (SDPA). If a module has imported the function by name, `object` is that module.

Each call stores the queries, keys and values of the current chunk. If k has more tokens than q, the last tokens of k
belong to the current chunk and the earlier ones come from the model's cache. Keys that were cached before the first
recorded call become chunks without queries. A pass has `layers` calls, and a chunk has `passes` passes. The last pass
of a chunk is the clean (cache-update) pass, whose keys and values later chunks read. Calls with fewer keys than
queries are cross-attention and are skipped; so are calls for which `take(q, k, v)` returns false.
"""

import contextlib
import ctypes
import hashlib
import json
import math
import os
import struct

import torch

_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32"}


def _bytes(t):
    t = t.detach().to("cpu").contiguous()
    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size())


def _write(path, tensors):
    """Writes `tensors` as a safetensors file, widest types first for alignment. Returns the file's SHA-256 in hex."""
    header, data, at = {}, [], 0
    for name, t in sorted(tensors.items(), key=lambda x: -x[1].element_size()):
        n = t.numel() * t.element_size()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + n]}
        data.append(t)
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    digest = hashlib.sha256()
    with open(path + ".tmp", "wb") as f:
        for part in [struct.pack("<Q", len(text)), text]:
            f.write(part)
            digest.update(part)
        for t in data:
            part = _bytes(t)
            f.write(part)
            digest.update(part)
    os.replace(path + ".tmp", path)
    return digest.hexdigest()


class Recorder:
    """Writes a trace to folder `path`, which must be empty. Most programs use record(), which installs the hooks.

    A program with hooks of its own calls `see` for attention calls in their usual order (layer by layer, pass by
    pass, chunk by chunk), or `put` with an explicit chunk, pass and layer; then it calls `finish`.

    model, licence: stored in index.json; both are required.
    layers: attention calls per pass. passes: passes per chunk, including the clean pass.
    frames_per_chunk: latent frames per chunk. grid: rows and columns of tokens in a frame.
    causal: whether attention within a chunk is causal. kv_heads: number of KV heads, if the program repeats them.
    window, sink: the model's window and sink in frames; window 0 means all earlier frames.
    source, text, seed, rope: stored in index.json for information.
    outputs: whether to store attention outputs. batch: index of the recorded sequence in the batch.
    take: function of q, k, v that returns False for calls to skip, or None.
    Raises ValueError if model or licence is empty, or if the folder has files."""

    def __init__(self, path, *, model, licence, layers, passes=1, frames_per_chunk=1, grid=(1, 1), causal=False,
                 kv_heads=None, window=0, sink=0, source="", text="", seed=0, rope=None, outputs=True, batch=0,
                 take=None):
        if not model or not licence:
            raise ValueError("kvtrace: model=%r, licence=%r: need a name for each ('unknown' is allowed)" % (model, licence))
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise ValueError("kvtrace: %s: the folder is not empty; a trace needs its own folder" % path)
        self.path, self.layers, self.passes, self.frames = path, layers, passes, frames_per_chunk
        self.grid, self.tokens, self.kv_heads = grid, grid[0] * grid[1], kv_heads
        self.outputs, self.batch, self.take = outputs, batch, take
        self.calls = 0     # number of recorded attention calls
        self.offset = 0    # number of chunks that were cached before the first call
        self.listed = []   # entries of `passes` in index.json
        self.index = {"format": "kvtrace", "version": 1,
                      "model": {"name": model, "licence": licence, "source": source}, "text": text,
                      "seed": seed, "window": window, "sink": sink,
                      "layout": {"layers": layers, "tokens_per_frame": self.tokens,
                                 "frames_per_chunk": frames_per_chunk, "causal": causal}, "rope": rope,
                      "passes": self.listed}

    # -- one call -----------------------------------------------------------------------------

    def _heads(self, x):
        """Removes the copies of KV heads that the program made for grouped-query attention."""
        heads = x.shape[1]
        if self.kv_heads and heads != self.kv_heads:
            if heads % self.kv_heads:
                raise ValueError("kvtrace: the keys have %d heads, need a multiple of kv_heads=%d" % (heads, self.kv_heads))
            x = x[:, :: heads // self.kv_heads]
        return x

    def _fits(self, q, k, v):
        """Raises ValueError if a call's shapes differ from the first call's."""
        sizes = {"kv_heads": k.shape[1], "head_dim": k.shape[2]}
        if q is not None:
            sizes["heads"] = q.shape[1]
        layout, n = self.index["layout"], k.shape[0] if q is None else q.shape[0]
        for name, value in sizes.items():
            if layout.setdefault(name, value) != value:
                raise ValueError("kvtrace: call %d: %s is %d, but %d in the first call; need equal shapes in all calls" %
                                 (self.calls, name, value, layout[name]))
        if k.shape != v.shape or (q is not None and k.shape[2] != q.shape[2]):
            raise ValueError("kvtrace: call %d: k is %s, v is %s, q is %s; need k and v of the same shape, with q's channels" %
                             (self.calls, list(k.shape), list(v.shape), None if q is None else list(q.shape)))
        if n % self.tokens or n > self.frames * self.tokens:
            raise ValueError("kvtrace: call %d: %d tokens; need a multiple of %d (one frame), at most %d frames" %
                             (self.calls, n, self.tokens, self.frames))

    def _positions(self, frame0, n):
        t = torch.arange(n, dtype=torch.int32)
        place = t % self.tokens
        return torch.stack([frame0 + t // self.tokens, place // self.grid[1], place % self.grid[1]], 1).to(torch.int32)

    def _put(self, chunk, index, layer, clean, tensors):
        frames = tensors["k"].shape[0] // self.tokens
        if layer == 0:
            self.listed.append({"chunk": chunk, "index": index, "frames": frames, "clean": clean,
                                "queries": "q" in tensors, "sha256": []})
        entry = next(p for p in reversed(self.listed) if (p["chunk"], p["index"]) == (chunk, index))
        tensors["position"] = self._positions(chunk * self.frames, tensors["k"].shape[0])
        name = "c%05d-p%02d-l%04d.safetensors" % (chunk, index, layer)
        entry["sha256"].append(_write(os.path.join(self.path, name), tensors))

    def _put_cached(self, layer, k, v):
        """Stores the keys and values that were cached before the first call, as whole chunks without queries."""
        step = self.frames * self.tokens
        if k.shape[0] % step:
            raise ValueError("kvtrace: %d tokens were cached before the first call, need a multiple of %d (one "
                             "chunk); start recording at the end of a chunk" % (k.shape[0], step))
        for chunk in range(k.shape[0] // step):
            part = slice(chunk * step, (chunk + 1) * step)
            self._put(chunk, 0, layer, True, {"k": k[part], "v": v[part]})
        self.offset = k.shape[0] // step

    def see(self, q, k, v, out=None, scale=None):
        """Records the next attention call of one sequence.

        q, out: [queries, heads, channels]; k, v: [cached + queries, KV heads, channels]; scale: the softmax scale,
        None for 1 / sqrt(channels). Raises ValueError if the shapes differ from the first call's."""
        n = q.shape[0]
        k, v = self._heads(k), self._heads(v)
        self._fits(q, k, v)
        layer, at = self.calls % self.layers, self.calls // self.layers
        if at == 0 and k.shape[0] > n:
            self._put_cached(layer, k[:-n], v[:-n])
        elif at == 0 and layer > 0 and self.offset:
            raise ValueError("kvtrace: layer %d has no cached tokens, but layer 0 has; start recording before layer 0 of a pass" %
                             layer)
        if scale is not None:  # a trace's scale is 1 / sqrt(D): multiply q by the ratio of the two scales
            factor = scale * math.sqrt(q.shape[2])
            q = q if abs(factor - 1) < 1e-6 else q.float() * factor
        tensors = {"q": q, "k": k[-n:], "v": v[-n:]}
        if self.outputs and out is not None:
            tensors["out"] = out
        index = at % self.passes
        self._put(self.offset + at // self.passes, index, layer, index == self.passes - 1, tensors)
        self.calls += 1

    def put(self, chunk, index, layer, clean, k, v, q=None, out=None):
        """Records one attention call for an explicit chunk, pass `index` and layer, for models that interleave chunks.

        q, out: [tokens, heads, channels]; k, v: [tokens, KV heads, channels] of the chunk alone, without cached tokens.
        clean: whether this is the chunk's clean pass. q None: a clean pass that computes no attention."""
        k, v = self._heads(k), self._heads(v)
        self._fits(q, k, v)
        tensors = {"k": k, "v": v}
        if q is not None:
            tensors["q"] = q
            self.calls += 1
        if self.outputs and out is not None:
            tensors["out"] = out
        self._put(chunk, index, layer, clean, tensors)

    # -- hooks --------------------------------------------------------------------------------

    def _wrap(self, function, layout):
        def hooked(*args, **kw):
            out = function(*args, **kw)
            names = (("q", "query"), ("k", "key"), ("v", "value"))
            q, k, v = (args[i] if i < len(args) else kw[next(n for n in names[i] if n in kw)] for i in range(3))
            tokens = 2 if layout == "bhtd" else 1
            mine = q.dim() == 4 and k.dim() == 4 and k.shape[tokens] >= q.shape[tokens]
            if mine and (self.take is None or self.take(q, k, v)):
                answer = out[0] if isinstance(out, tuple) else out
                one = [x[self.batch].transpose(0, 1) if layout == "bhtd" else x[self.batch] for x in (q, k, v, answer)]
                self.see(*one, scale=kw.get("scale", kw.get("softmax_scale")))
            return out

        hooked.__wrapped__ = function
        return hooked

    @contextlib.contextmanager
    def hooked(self, targets=None):
        if targets is None:
            targets = [(torch.nn.functional, "scaled_dot_product_attention", "bhtd")]
        before = [(o, name, getattr(o, name)) for o, name, layout in targets]
        if any(layout not in ("bhtd", "bthd") for _, _, layout in targets):
            raise ValueError("kvtrace: targets: unknown layout, need 'bhtd' or 'bthd'")
        for o, name, layout in targets:
            setattr(o, name, self._wrap(getattr(o, name), layout))
        try:
            yield self
        finally:
            for o, name, function in before:
                setattr(o, name, function)

    def finish(self):
        """Writes index.json; the last chunk may lack its clean pass. Raises ValueError without whole passes."""
        if self.calls == 0:
            raise ValueError("kvtrace: no attention call was recorded; `targets` must name the module whose code calls attention")
        if self.calls % self.layers:
            raise ValueError("kvtrace: %d attention calls were recorded, need a multiple of %d (layers); check `layers`" %
                             (self.calls, self.layers))
        path = os.path.join(self.path, "index.json")
        with open(path + ".tmp", "w") as f:
            json.dump(self.index, f, indent=1)
        os.replace(path + ".tmp", path)


@contextlib.contextmanager
def record(path, *, targets=None, **about):
    """Records the attention calls inside the `with` block to folder `path`, and yields the Recorder.

    targets: hooked functions, see the top of this file. about: keyword arguments of Recorder."""
    recorder = Recorder(path, **about)
    with recorder.hooked(targets):
        yield recorder
    recorder.finish()
