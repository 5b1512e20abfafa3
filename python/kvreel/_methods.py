"""Methods, encoded blocks of keys and values, and the KV cache of a rollout."""

import ctypes
import json

import numpy as np

from . import _lib
from ._arrays import f32, target
from ._lib import call, floats, lib


def registry():
    """Returns all available methods, stages, paths, corrections and geometries: a dict of lists."""
    return json.loads(_lib.text("registry"))


def methods():
    """Returns the names of all methods; each is a valid `spec` of Method."""
    return [m["name"] for m in registry()["methods"]]


def _value(v):
    return str(v).lower() if isinstance(v, bool) else str(v)


def _bytes(name, handle):
    b = _lib.Bytes(size=ctypes.sizeof(_lib.Bytes))
    call(name, handle, ctypes.byref(b))
    out = {name: int(getattr(b, name)) for name, _ in b._fields_[1:]}
    out["compression"] = out["bf16"] / out["resident"] if out["resident"] else None
    return out


class _Owned:
    """Owns a handle of the library and closes it with the function named `_close` when the object is deleted."""

    _close = None

    def __init__(self):
        self._handle = ctypes.c_void_p()

    def __del__(self):
        # At interpreter exit, `lib` may be deleted before this object.
        if getattr(self, "_handle", None) and lib is not None:
            getattr(lib, self._close)(ctypes.byref(self._handle))


class Method(_Owned):
    """A method with its options: Method("RTN_INT4+taylor", bits=3), Method("KIVI_INT4@study").

    Options whose names have a dot are passed as a dict: Method("RTN_INT4", {"k.bits": 2}).
    Raises KvreelError if the method or an option is unknown, or a value is out of bounds."""

    _close = "kvreel_method_close"

    def __init__(self, spec, options=None, **more):
        super().__init__()
        settings = ["%s=%s" % (k, _value(v)) for k, v in {**(options or {}), **more}.items()]
        array = (ctypes.c_char_p * (len(settings) + 1))(*[s.encode() for s in settings], None)
        call("method_open", ctypes.byref(self._handle), spec.encode(), array)
        self.name = lib.kvreel_method_name(self._handle).decode()

    def __repr__(self):
        return "kvreel.Method(%r)" % self.name

    def predict(self, geometry="wan-1.3b", frames=21):
        """Returns the predicted cache size of a rollout of `frames` latent frames, as a dict of byte counts.

        geometry: wan-1.3b, wan-14b, the path of a model folder, or of a JSON file like a model's config.json.
        Raises KvreelError if the geometry is unknown."""
        return json.loads(_lib.text("predict", self._handle, geometry.encode(), int(frames)))

    def encode(self, k, v, **shape):
        """Encodes k and v, arrays of any numeric type [tokens, heads, dim], as a Block.

        shape: tokens_per_frame, frames_per_chunk, layer and n_layers, for methods that depend on them. By default all
        tokens are one frame of a single layer. Raises ValueError if k and v differ in shape."""
        return Block(self, f32(k, 3, "k"), f32(v, 3, "v"), shape)

    def cache(self, **shape):
        """Returns an empty Cache of this method; see Cache for the arguments."""
        return Cache(self, **shape)


class Block(_Owned):
    """Keys and values of one layer, encoded by a method."""

    _close = "kvreel_block_free"

    def __init__(self, method, k, v, shape):
        super().__init__()
        if k.shape != v.shape:
            raise ValueError("k has shape %s, v has shape %s; need equal shapes" % (k.shape, v.shape))
        self.method = method  # the method's handle must stay open as long as its blocks
        self.shape = k.shape
        s = _lib.BlockShape(size=ctypes.sizeof(_lib.BlockShape), n_tok=k.shape[0], n_heads=k.shape[1],
                            head_dim=k.shape[2], **shape)
        call("block_encode", ctypes.byref(self._handle), method._handle, floats(k), floats(v), ctypes.byref(s))

    def decode(self, out=None):
        """Returns the decoded (k, v), F32 [tokens, heads, dim]; evicted tokens are 0.

        out: a pair of contiguous F32 arrays or tensors that receive k and v and are returned, or None."""
        (k, k_done), (v, v_done) = (target(x, self.shape, what) for x, what in zip(out or (None, None), ("k", "v")))
        call("block_decode", self._handle, floats(k), floats(v), None)
        k_done()
        v_done()
        return out or (k, v)

    def held(self):
        """Returns a bool array [tokens], False for evicted tokens."""
        out = np.empty(self.shape[0], np.uint8)
        call("block_decode", self._handle, None, None, out.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))
        return out.astype(bool)

    def attend(self, q, out=None):
        """Returns softmax(q K^T / sqrt(D)) V over the block's tokens, F32, shaped like q.

        q: [queries, query heads, dim]; the number of query heads is a multiple of the KV heads.
        out: contiguous F32 array or tensor that receives the result and is returned, or None."""
        q = f32(q, 3, "q")
        if q.shape[2] != self.shape[2]:
            raise ValueError("q has shape %s, need %d channels per head, as the keys have" % (q.shape, self.shape[2]))
        into, done = target(out, q.shape, "out")
        call("block_attend", self._handle, floats(q), q.shape[0], q.shape[1], floats(into))
        done()
        return into if out is None else out

    def bytes(self):
        """Returns the block's size: a dict.

        tokens: number of encoded tokens; bf16: their bytes in BF16; nominal: computed bytes of the packed format;
        resident: allocated bytes; codes: allocated bytes of the codes alone; compression: bf16 / resident."""
        return _bytes("block_bytes", self._handle)

    def hash(self):
        """Returns the SHA-256 of the stored bytes in hex, as `kvreel codec` prints it."""
        hexes = ctypes.create_string_buffer(65)
        call("block_hash", self._handle, hexes)
        return hexes.value.decode()


class Cache(_Owned):
    """The KV cache of all layers of a rollout:

        cache = method.cache(n_layers=30, n_heads=12, head_dim=128, tokens_per_frame=1560,
                             frames_per_chunk=3, capacity_frames=21)
        with cache.chunk(frame0=0, n_frames=3, clean=True):
            for layer ...: out = cache.attend(layer, q, k, v)

    capacity_frames is the number of latent frames of the whole rollout. Optional arguments:
        n_kv_heads       number of KV heads, by default n_heads
        window_frames    number of newest frames that attention sees, 0 (default): all
        sink_frames      number of first frames that attention always sees, 0 by default
        evict            whether to free the memory of tokens that no later pass can see
        causal           whether attention within a chunk is causal
        exact_f32        whether to store unquantized keys and values as F32 instead of BF16
        path, attend     attention path ("staged", "fused", "dense") and arithmetic ("float", "int8")
    """

    _close = "kvreel_cache_close"

    def __init__(self, method, **shape):
        super().__init__()
        text = {name: shape.pop(name).encode() for name in ("path", "attend") if shape.get(name)}
        s = _lib.CacheShape(size=ctypes.sizeof(_lib.CacheShape), **{k: int(v) for k, v in shape.items()}, **text)
        s.n_kv_heads = s.n_kv_heads or s.n_heads
        self.method, self._shape = method, s
        call("cache_open", ctypes.byref(self._handle), method._handle, ctypes.byref(s))

    def begin(self, frame0, n_frames, clean, index=0):
        """Begins a pass over n_frames frames from frame0; see chunk(). Raises KvreelError inside another pass."""
        chunk = frame0 // self._shape.frames_per_chunk
        call("cache_begin", self._handle, chunk, frame0, n_frames, index, bool(clean))
        self._tokens = n_frames * self._shape.tokens_per_frame

    def end(self):
        """Ends the pass."""
        call("cache_end", self._handle)

    def chunk(self, frame0, n_frames, clean, index=0):
        """Returns a context manager for one pass of the model over frames [frame0, frame0 + n_frames) of a chunk.

        clean: whether this is the cache-update pass, whose keys and values are stored. Other passes store nothing.
        index: number of the pass within its chunk, from 0."""
        return _Pass(self, frame0, n_frames, clean, index)

    def _append(self, layer, k, v):
        k, v = f32(k, 3, "k"), f32(v, 3, "v")
        want = (self._tokens, self._shape.n_kv_heads, self._shape.head_dim)
        if k.shape != want or v.shape != want:
            raise ValueError("k has shape %s, v has shape %s; the pass needs %s" % (k.shape, v.shape, want))
        call("cache_append", self._handle, layer, floats(k), floats(v))

    def attend(self, layer, q, k, v, out=None):
        """Returns attention of the pass's queries over the visible cached tokens and the pass's own k, v.

        q and the result: [tokens, n_heads, head_dim]; k, v: [tokens, n_kv_heads, head_dim].
        out: contiguous F32 array or tensor that receives the result and is returned, or None.
        Raises ValueError if a shape does not match the pass."""
        q = f32(q, 3, "q")
        want = (self._tokens, self._shape.n_heads, self._shape.head_dim)
        if q.shape != want:
            raise ValueError("q has shape %s; the pass needs %s" % (q.shape, want))
        into, done = target(out, q.shape, "out")
        self._append(layer, k, v)
        call("cache_attend", self._handle, layer, floats(q), floats(into))
        done()
        return into if out is None else out

    def commit(self, layer, k, v):
        """Stores k, v [tokens, n_kv_heads, head_dim] of a cache-update pass without computing attention."""
        self._append(layer, k, v)
        call("cache_commit", self._handle, layer)

    def read(self, layer):
        """Returns the decoded (k, v) of the stored tokens visible to the last pass, oldest first.

        Both are F32 [tokens, n_kv_heads, head_dim]."""
        n = ctypes.c_int64()
        call("cache_read", self._handle, layer, None, None, ctypes.byref(n))
        k = np.empty((n.value, self._shape.n_kv_heads, self._shape.head_dim), np.float32)
        v = np.empty_like(k)
        call("cache_read", self._handle, layer, floats(k), floats(v), ctypes.byref(n))
        return k, v

    def reset(self):
        """Removes all tokens."""
        lib.kvreel_cache_reset(self._handle)

    def bytes(self):
        """Returns the cache's size over all layers: a dict with the keys of Block.bytes()."""
        return _bytes("cache_bytes", self._handle)

    def times(self):
        """Returns the nanoseconds spent in encode, decode and attend since creation or the last reset, as a dict."""
        ns = [ctypes.c_int64() for _ in range(3)]
        call("cache_times", self._handle, *[ctypes.byref(x) for x in ns])
        return dict(zip(("encode", "decode", "attend"), (x.value for x in ns)))


class _Pass:
    def __init__(self, cache, *arguments):
        self.cache, self.arguments = cache, arguments

    def __enter__(self):
        self.cache.begin(*self.arguments)
        return self.cache

    def __exit__(self, *_):
        self.cache.end()
        return False
