"""Arrays in: numpy, or anything with __dlpack__ in the host's memory, BF16 and 8-bit floats too."""

import ctypes

import numpy as np

from ._lib import call, floats

_KINDS = {(0, 8): np.int8, (0, 16): np.int16, (0, 32): np.int32, (0, 64): np.int64,
          (1, 8): np.uint8, (1, 16): np.uint16, (1, 32): np.uint32, (1, 64): np.uint64,
          (2, 32): np.float32, (2, 64): np.float64}
# Types that numpy lacks, or that the library converts: what they are called there, and the integer
# that holds the bits. The numbers are those of DLPack's DLDataTypeCode.
_CONVERTED = {(2, 16): ("F16", np.uint16), (4, 16): ("BF16", np.uint16), (10, 8): ("F8_E4M3", np.uint8),
              (12, 8): ("F8_E5M2", np.uint8)}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h, as far as it is the same in every version."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(x):
    """A copy, so the capsule is left to its owner: it is not renamed, and its deleter runs with it."""
    kind = int(x.__dlpack_device__()[0])
    if kind not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise ValueError("an array of device type %d: bring it to the host first (x.cpu())" % kind)
    capsule = x.__dlpack__()
    t = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    key = (t.code, t.bits)
    held = _CONVERTED.get(key)
    if t.lanes != 1 or not (held or key in _KINDS):
        raise ValueError("an array of DLPack type code %d, %d bits, %d lanes is none of ours" % (*key, t.lanes))
    dtype = np.dtype(held[1] if held else _KINDS[key])
    shape = tuple(t.shape[i] for i in range(t.ndim))
    n = int(np.prod(shape, dtype=np.int64))
    strides = [t.strides[i] * dtype.itemsize for i in range(t.ndim)] if t.strides else None
    if n == 0:
        return np.zeros(shape, np.float32)
    last = sum((shape[i] - 1) * (strides[i] if strides else 0) for i in range(t.ndim)) if strides else (n - 1) * dtype.itemsize
    raw = (ctypes.c_uint8 * (last + dtype.itemsize)).from_address(t.data + t.byte_offset)
    seen = np.ndarray(shape, dtype, raw, strides=strides)
    return _to_f32(np.ascontiguousarray(seen), held[0]) if held else np.array(seen, np.float32)


def _to_f32(bits, name):
    out = np.empty(bits.shape, np.float32)
    call("to_f32", floats(out), bits.ctypes.data, name.encode(), bits.size)
    return out


def f32(x, n_dims, what):
    """x as a contiguous F32 array with so many dimensions."""
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        x = _of_dlpack(x.detach() if hasattr(x, "detach") else x)
    else:
        x = np.asarray(x)
        if x.dtype == np.float16:
            x = _to_f32(np.ascontiguousarray(x).view(np.uint16), "F16")
        elif x.dtype.kind not in "fiu":
            raise ValueError("%s: an array of %s" % (what, x.dtype))
    if x.ndim != n_dims:
        raise ValueError("%s: %d dimensions, need %d" % (what, x.ndim, n_dims))
    return np.ascontiguousarray(x, np.float32)
