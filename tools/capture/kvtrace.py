"""kvtrace: records what a PyTorch model's attention is asked, as a trace that kvreel replays.

    import kvtrace
    with kvtrace.record("mine.kvtrace", model="my-model", licence="Apache-2.0", layers=30,
                        frames_per_chunk=3, grid=(30, 52), passes=5):
        pipeline.inference(...)

This file and PyTorch are all it needs: copy it beside your program. Every call of attention becomes a
file as it happens, so a trace may be larger than memory; index.json comes last, when the block ends
without an exception. docs/kvtrace.md of kvreel is the format, `kvreel trace check` the judge of it.

What is hooked: torch.nn.functional.scaled_dot_product_attention, unless `targets` names others, each
(object, name, layout): a function whose first three arguments are q, k and v (or query, key and value), as "bthd" (flash-attention's
[batch, tokens, heads, channels]) or "bhtd" (SDPA's). A function that was imported by name lives in the module
that imported it: name that module.

What is recorded: keys and values as they arrive. Where k has more tokens than q, the last of them are the
current chunk's and those before were cached; what was cached before the first call becomes chunks without
queries. `layers` calls make a pass, `passes` passes a chunk, the last of which is the clean one whose keys
later chunks see. Calls that are not self-attention are left out: those with fewer keys than queries, and
those for which `take(q, k, v)` is false.
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
    """A safetensors file, wider types first so that all of it is aligned; its sha256."""
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
    """Use record(). `see` takes one call, `put` one whose place is known; whoever hooks by other means calls them."""

    def __init__(self, path, *, model, licence, layers, passes=1, frames_per_chunk=1, grid=(1, 1), causal=False,
                 kv_heads=None, window=0, sink=0, source="", text="", seed=0, rope=None, outputs=True, batch=0,
                 take=None):
        if not model or not licence:
            raise ValueError("kvtrace: a trace needs its model's name and licence ('unknown' is allowed)")
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise ValueError("kvtrace: %s: not empty; a trace needs its own folder" % path)
        self.path, self.layers, self.passes, self.frames = path, layers, passes, frames_per_chunk
        self.grid, self.tokens, self.kv_heads = grid, grid[0] * grid[1], kv_heads
        self.outputs, self.batch, self.take = outputs, batch, take
        self.calls = 0     # of attention that were recorded
        self.offset = 0    # chunks that were cached before the first call
        self.listed = []   # passes of the index
        self.index = {"format": "kvtrace", "version": 1,
                      "model": {"name": model, "licence": licence, "source": source}, "text": text,
                      "seed": seed, "window": window, "sink": sink,
                      "layout": {"layers": layers, "tokens_per_frame": self.tokens,
                                 "frames_per_chunk": frames_per_chunk, "causal": causal}, "rope": rope,
                      "passes": self.listed}

    # -- one call -----------------------------------------------------------------------------

    def _heads(self, x):
        """Keys and values that were repeated for grouped queries, once each."""
        heads = x.shape[1]
        if self.kv_heads and heads != self.kv_heads:
            if heads % self.kv_heads:
                raise ValueError("kvtrace: %d heads of keys, no multiple of kv_heads %d" % (heads, self.kv_heads))
            x = x[:, :: heads // self.kv_heads]
        return x

    def _fits(self, q, k, v):
        """The layout of all calls is that of the first."""
        sizes = {"kv_heads": k.shape[1], "head_dim": k.shape[2]}
        if q is not None:
            sizes["heads"] = q.shape[1]
        layout, n = self.index["layout"], k.shape[0] if q is None else q.shape[0]
        for name, value in sizes.items():
            if layout.setdefault(name, value) != value:
                raise ValueError("kvtrace: call %d: %s is %d, the first call's %d" % (self.calls, name, value, layout[name]))
        if k.shape != v.shape or (q is not None and k.shape[2] != q.shape[2]):
            raise ValueError("kvtrace: call %d: k %s, v %s, q %s: need keys and values alike, of q's channels" %
                             (self.calls, list(k.shape), list(v.shape), None if q is None else list(q.shape)))
        if n % self.tokens or n > self.frames * self.tokens:
            raise ValueError("kvtrace: call %d: %d tokens, need whole frames of %d, at most %d" %
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
        """Keys from before the first call: whole chunks, without queries."""
        step = self.frames * self.tokens
        if k.shape[0] % step:
            raise ValueError("kvtrace: %d tokens were cached before the first call, need whole chunks of %d; "
                             "begin to record earlier" % (k.shape[0], step))
        for chunk in range(k.shape[0] // step):
            part = slice(chunk * step, (chunk + 1) * step)
            self._put(chunk, 0, layer, True, {"k": k[part], "v": v[part]})
        self.offset = k.shape[0] // step

    def see(self, q, k, v, out=None, scale=None):
        """q, k, v, out: [tokens, heads, channels] of one sequence."""
        n = q.shape[0]
        k, v = self._heads(k), self._heads(v)
        self._fits(q, k, v)
        layer, at = self.calls % self.layers, self.calls // self.layers
        if at == 0 and k.shape[0] > n:
            self._put_cached(layer, k[:-n], v[:-n])
        elif at == 0 and layer > 0 and self.offset:
            raise ValueError("kvtrace: layer %d has no cached tokens, layer 0 had" % layer)
        if scale is not None:  # attention is softmax(q k^T / sqrt(D)): what differs goes into q
            factor = scale * math.sqrt(q.shape[2])
            q = q if abs(factor - 1) < 1e-6 else q.float() * factor
        tensors = {"q": q, "k": k[-n:], "v": v[-n:]}
        if self.outputs and out is not None:
            tensors["out"] = out
        index = at % self.passes
        self._put(self.offset + at // self.passes, index, layer, index == self.passes - 1, tensors)
        self.calls += 1

    def put(self, chunk, index, layer, clean, k, v, q=None, out=None):
        """One call in a place that the caller knows, where chunks do not come one after another: k, v, q and out of
        the chunk alone, [tokens, heads, channels]. Without q: a clean pass of which nobody asks anything."""
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
            raise ValueError("kvtrace: layouts are 'bhtd' and 'bthd'")
        for o, name, layout in targets:
            setattr(o, name, self._wrap(getattr(o, name), layout))
        try:
            yield self
        finally:
            for o, name, function in before:
                setattr(o, name, function)

    def finish(self):
        """Writes the index. A last chunk whose clean pass never came stays as it is."""
        if self.calls == 0:
            raise ValueError("kvtrace: no call of attention was seen: is it hooked where it is called from?")
        if self.calls % self.layers:
            raise ValueError("kvtrace: %d calls are no whole passes of %d layers" % (self.calls, self.layers))
        path = os.path.join(self.path, "index.json")
        with open(path + ".tmp", "w") as f:
            json.dump(self.index, f, indent=1)
        os.replace(path + ".tmp", path)


@contextlib.contextmanager
def record(path, *, targets=None, **about):
    """Records what is attended to in the block; `about` is Recorder's. See the top of this file."""
    recorder = Recorder(path, **about)
    with recorder.hooked(targets):
        yield recorder
    recorder.finish()
