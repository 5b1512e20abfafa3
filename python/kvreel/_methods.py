"""Methods, blocks of coded keys and values, and the cache of a whole rollout."""

import ctypes
import json

import numpy as np

from . import _lib
from ._arrays import f32, target
from ._lib import call, floats, lib


def registry():
    """What there is: lists under methods, stages, paths, corrections, geometries."""
    return json.loads(_lib.text("registry"))


def methods():
    """Names of all methods, as Method takes them."""
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
    """A handle of the library, closed when nobody needs it; `_close` is the function's name."""

    _close = None

    def __init__(self):
        self._handle = ctypes.c_void_p()

    def __del__(self):
        # At the interpreter's end this module may be gone before its objects.
        if getattr(self, "_handle", None) and lib is not None:
            getattr(lib, self._close)(ctypes.byref(self._handle))


class Method(_Owned):
    """A method with its options: Method("RTN_INT4+taylor", bits=3), Method("KIVI_INT4@study").

    Options whose names have a dot come as a dict: Method("RTN_INT4", {"k.bits": 2})."""

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
        """What the cache of so many latent frames takes, without running it: a dict."""
        return json.loads(_lib.text("predict", self._handle, geometry.encode(), int(frames)))

    def encode(self, k, v, **shape):
        """k, v [tokens, heads, dim] as a Block. `shape`: tokens_per_frame, frames_per_chunk, layer,
        n_layers, of methods that differ by them; without, all tokens are one frame."""
        return Block(self, f32(k, 3, "k"), f32(v, 3, "v"), shape)

    def cache(self, **shape):
        return Cache(self, **shape)


class Block(_Owned):
    """Keys and values of one layer as the method holds them."""

    _close = "kvreel_block_free"

    def __init__(self, method, k, v, shape):
        super().__init__()
        if k.shape != v.shape:
            raise ValueError("k is %s, v is %s" % (k.shape, v.shape))
        self.method = method  # the library's method lives as long as what it has coded
        self.shape = k.shape
        s = _lib.BlockShape(size=ctypes.sizeof(_lib.BlockShape), n_tok=k.shape[0], n_heads=k.shape[1],
                            head_dim=k.shape[2], **shape)
        call("block_encode", ctypes.byref(self._handle), method._handle, floats(k), floats(v), ctypes.byref(s))

    def decode(self, out=None):
        """(k, v), F32, shaped as what was coded; a token that was given up is 0. `out`: a pair that they are written into."""
        (k, k_done), (v, v_done) = (target(x, self.shape, what) for x, what in zip(out or (None, None), ("k", "v")))
        call("block_decode", self._handle, floats(k), floats(v), None)
        k_done()
        v_done()
        return out or (k, v)

    def held(self):
        """[tokens] bool: False of what was given up."""
        out = np.empty(self.shape[0], np.uint8)
        call("block_decode", self._handle, None, None, out.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))
        return out.astype(bool)

    def attend(self, q, out=None):
        """softmax(q K^T / sqrt(D)) V; q [queries, heads, dim], heads a multiple of the keys'; `out`: written into."""
        q = f32(q, 3, "q")
        if q.shape[2] != self.shape[2]:
            raise ValueError("q is %s over keys of %d" % (q.shape, self.shape[2]))
        into, done = target(out, q.shape, "out")
        call("block_attend", self._handle, floats(q), q.shape[0], q.shape[1], floats(into))
        done()
        return into if out is None else out

    def bytes(self):
        """tokens, bf16, nominal, resident, codes, compression."""
        return _bytes("block_bytes", self._handle)

    def hash(self):
        """sha256 of all that is stored, as `kvreel codec` tells it."""
        hexes = ctypes.create_string_buffer(65)
        call("block_hash", self._handle, hexes)
        return hexes.value.decode()


class Cache(_Owned):
    """All layers of a rollout:

        cache = method.cache(n_layers=30, n_heads=12, head_dim=128, tokens_per_frame=1560,
                             frames_per_chunk=3, capacity_frames=21)
        with cache.chunk(frame0=0, n_frames=3, clean=True):
            for layer ...: out = cache.attend(layer, q, k, v)
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
        chunk = frame0 // self._shape.frames_per_chunk
        call("cache_begin", self._handle, chunk, frame0, n_frames, index, bool(clean))
        self._tokens = n_frames * self._shape.tokens_per_frame

    def end(self):
        call("cache_end", self._handle)

    def chunk(self, frame0, n_frames, clean, index=0):
        """A pass, for `with`. What a clean one appends stays."""
        return _Pass(self, frame0, n_frames, clean, index)

    def _append(self, layer, k, v):
        k, v = f32(k, 3, "k"), f32(v, 3, "v")
        want = (self._tokens, self._shape.n_kv_heads, self._shape.head_dim)
        if k.shape != want or v.shape != want:
            raise ValueError("k is %s, v is %s, the pass needs %s" % (k.shape, v.shape, want))
        call("cache_append", self._handle, layer, floats(k), floats(v))

    def attend(self, layer, q, k, v, out=None):
        """The pass's q over what is visible of the past and its own k, v; `out`: written into, a torch tensor for example."""
        q = f32(q, 3, "q")
        want = (self._tokens, self._shape.n_heads, self._shape.head_dim)
        if q.shape != want:
            raise ValueError("q is %s, the pass needs %s" % (q.shape, want))
        into, done = target(out, q.shape, "out")
        self._append(layer, k, v)
        call("cache_attend", self._handle, layer, floats(q), floats(into))
        done()
        return into if out is None else out

    def commit(self, layer, k, v):
        """Of a cache-update pass: store without attention."""
        self._append(layer, k, v)
        call("cache_commit", self._handle, layer)

    def read(self, layer):
        """(k, v) of the stored tokens that the next pass may see, oldest first."""
        n = ctypes.c_int64()
        call("cache_read", self._handle, layer, None, None, ctypes.byref(n))
        k = np.empty((n.value, self._shape.n_kv_heads, self._shape.head_dim), np.float32)
        v = np.empty_like(k)
        call("cache_read", self._handle, layer, floats(k), floats(v), ctypes.byref(n))
        return k, v

    def reset(self):
        lib.kvreel_cache_reset(self._handle)

    def bytes(self):
        return _bytes("cache_bytes", self._handle)

    def times(self):
        """Nanoseconds since open or reset: encode, decode, attend."""
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
