"""ctypes bindings of libkvreel.so: search paths, signatures, and errors as exceptions."""

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_int, c_size_t, c_uint8, c_uint64, c_void_p

ABI = 1


class KvreelError(Exception):
    """An error of the library: its message, and in `status` the name of its code, such as "EINVAL"."""

    NAMES = {1: "EINVAL", 2: "ENOMEM", 3: "EIO", 5: "EFORMAT", 6: "ENOTFOUND", 7: "EUNSUPPORTED",
             11: "ENAN", 13: "EINTERNAL"}

    def __init__(self, number, sentence):
        super().__init__(sentence)
        self.status = self.NAMES.get(number, str(number))


def _places():
    """Yields the paths of libkvreel.so to try: KVREEL_LIB alone if it is set; else this folder, ../../build, the system."""
    if os.environ.get("KVREEL_LIB"):
        yield os.environ["KVREEL_LIB"]
        return
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / "libkvreel.so", here.parent.parent / "build" / "libkvreel.so"):
        if path.exists():
            yield str(path)
    yield "libkvreel.so.%d" % ABI


def _load():
    # Limits how long waiting OpenMP threads spin (docs/decisions.md). It has no effect if libgomp is
    # loaded already, for example by PyTorch.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1500")
    errors = []
    for path in _places():
        try:
            lib = ctypes.CDLL(path)
        except OSError as e:
            errors.append(str(e))
            continue
        if lib.kvreel_abi() != ABI:
            raise ImportError("%s has ABI %d, but this module needs ABI %d; install a library and a module of the same version" % (path, lib.kvreel_abi(), ABI))
        return lib
    raise ImportError("libkvreel.so cannot be loaded; build it with `make lib` or set KVREEL_LIB to its path: " + "; ".join(errors))


class Bytes(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("tokens", c_int64), ("bf16", c_uint64), ("nominal", c_uint64),
                ("resident", c_uint64), ("codes", c_uint64)]


class BlockShape(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("n_tok", c_int64), ("n_heads", c_int32), ("head_dim", c_int32),
                ("tokens_per_frame", c_int64), ("frames_per_chunk", c_int32), ("layer", c_int32),
                ("n_layers", c_int32)]


class CacheShape(ctypes.Structure):
    _fields_ = [("size", c_size_t)] + [(name, c_int32) for name in (
        "n_layers", "n_heads", "head_dim", "n_kv_heads", "tokens_per_frame", "frames_per_chunk",
        "capacity_frames", "window_frames", "sink_frames", "evict", "causal", "exact_f32")] + [
        ("path", c_char_p), ("attend", c_char_p)]


lib = _load()
_F = POINTER(c_float)
_I = POINTER(c_int64)
_SIGNATURES = {
    "registry": [POINTER(c_void_p)],
    "method_open": [POINTER(c_void_p), c_char_p, POINTER(c_char_p)],
    "predict": [c_void_p, c_char_p, c_int, POINTER(c_void_p)],
    "block_encode": [POINTER(c_void_p), c_void_p, _F, _F, POINTER(BlockShape)],
    "block_decode": [c_void_p, _F, _F, POINTER(c_uint8)],
    "block_attend": [c_void_p, _F, c_int64, c_int32, _F],
    "block_bytes": [c_void_p, POINTER(Bytes)],
    "block_hash": [c_void_p, c_char_p],
    "cache_open": [POINTER(c_void_p), c_void_p, POINTER(CacheShape)],
    "cache_begin": [c_void_p, c_int32, c_int32, c_int32, c_int32, c_int32],
    "cache_append": [c_void_p, c_int32, _F, _F],
    "cache_attend": [c_void_p, c_int32, _F, _F],
    "cache_commit": [c_void_p, c_int32],
    "cache_end": [c_void_p],
    "cache_read": [c_void_p, c_int32, _F, _F, _I],
    "cache_bytes": [c_void_p, POINTER(Bytes)],
    "cache_times": [c_void_p, _I, _I, _I],
    "to_f32": [_F, c_void_p, c_char_p, c_size_t],
}
for _name, _arguments in _SIGNATURES.items():
    getattr(lib, "kvreel_" + _name).argtypes = _arguments
for _name in ("method_close", "block_free", "cache_close"):
    getattr(lib, "kvreel_" + _name).argtypes = [POINTER(c_void_p)]
    getattr(lib, "kvreel_" + _name).restype = None
for _name in ("cache_reset", "free"):
    getattr(lib, "kvreel_" + _name).argtypes = [c_void_p]
    getattr(lib, "kvreel_" + _name).restype = None
for _name in ("error", "version"):
    getattr(lib, "kvreel_" + _name).restype = c_char_p
lib.kvreel_method_name.argtypes = [c_void_p]
lib.kvreel_method_name.restype = c_char_p


def call(name, *arguments):
    number = getattr(lib, "kvreel_" + name)(*arguments)
    if number:
        raise KvreelError(number, lib.kvreel_error().decode())


def text(name, *arguments):
    """Calls a library function whose last argument returns a string; frees the string and returns a copy."""
    out = c_void_p()
    call(name, *arguments, ctypes.byref(out))
    try:
        return ctypes.string_at(out.value).decode()
    finally:
        lib.kvreel_free(out)


def floats(array):
    return None if array is None else array.ctypes.data_as(_F)
