"""Conversion of input and output arrays: NumPy, or any type with __dlpack__, including BF16 and 8-bit floats.

Contiguous F32 arrays in host memory (device types kDLCPU, kDLCUDAHost, kDLCUDAManaged) are used without a copy. Other
types are converted to F32. Arrays on a CUDA device are copied to the host, because the library computes on the CPU."""

import ctypes

import numpy as np

from ._lib import call, floats

_KINDS = {(0, 8): np.int8, (0, 16): np.int16, (0, 32): np.int32, (0, 64): np.int64,
          (1, 8): np.uint8, (1, 16): np.uint16, (1, 32): np.uint32, (1, 64): np.uint64,
          (2, 32): np.float32, (2, 64): np.float64}
# Types that kvreel_to_f32() converts. Key: (DLPack's DLDataTypeCode, bits). Value: (the library's name of the type,
# NumPy integer of the same width).
_CONVERTED = {(2, 16): ("F16", np.uint16), (4, 16): ("BF16", np.uint16), (10, 8): ("F8_E4M3", np.uint8),
              (12, 8): ("F8_E5M2", np.uint8)}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h; all versions have these fields."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


_HOST, _CUDA = (1, 3, 13), 2  # kDLCPU, kDLCUDAHost, kDLCUDAManaged; kDLCUDA


def _driver():
    """Loads the CUDA driver. The program that created the array has made its CUDA context current."""
    return ctypes.CDLL("libcuda.so.1")


def _move(name, to, of, n_bytes):
    try:
        driver = _driver()
    except OSError:
        raise ValueError("an array on a CUDA device, but libcuda.so.1 cannot be loaded; copy the array to the host (x.cpu())") from None
    function = getattr(driver, name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]  # the call is synchronous
    number = function(to, of, n_bytes)
    if number:
        raise ValueError("an array on a CUDA device: %s of %d bytes failed with CUDA error %d" % (name, n_bytes, number))


class _Dlpack:
    """The memory of a tensor with __dlpack__: `extent` bytes from address `first` to the end of the last element.

    The capsule is not renamed to "used_dltensor", so it still owns the tensor and calls its deleter."""

    def __init__(self, x):
        self.kind = int(x.__dlpack_device__()[0])
        if self.kind not in (*_HOST, _CUDA):
            raise ValueError("an array of DLPack device type %d, need host memory or CUDA; copy it to the host (x.cpu())" % self.kind)
        self.capsule = x.__dlpack__()
        t = _Tensor.from_address(_pointer(self.capsule, b"dltensor"))
        self.key = (t.code, t.bits)
        self.converted = _CONVERTED.get(self.key)
        if t.lanes != 1 or not (self.converted or self.key in _KINDS):
            raise ValueError("an array of DLPack type code %d, %d bits, %d lanes; need integers or floats with 1 lane" % (*self.key, t.lanes))
        self.dtype = np.dtype(self.converted[1] if self.converted else _KINDS[self.key])
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self.strides = [t.strides[i] * self.dtype.itemsize for i in range(t.ndim)] if t.strides else None
        n = int(np.prod(self.shape, dtype=np.int64))
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides)) if self.strides else (n - 1) * self.dtype.itemsize
        self.extent = last + self.dtype.itemsize if n else 0
        self.first = t.data + t.byte_offset if n else 0

    def view(self, address):
        """Returns the elements at `address` as a NumPy array, which keeps the DLPack capsule alive."""
        raw = (ctypes.c_uint8 * self.extent).from_address(address) if self.extent else ctypes.create_string_buffer(1)
        raw.capsule = self.capsule
        return np.ndarray(self.shape, self.dtype, raw, strides=self.strides)


def _of_dlpack(x):
    t = _Dlpack(x)
    if t.kind == _CUDA and t.extent:
        host = ctypes.create_string_buffer(t.extent)
        _move("cuMemcpyDtoH_v2", ctypes.addressof(host), t.first, t.extent)
        seen = t.view(ctypes.addressof(host))
        seen = seen.copy()  # `host` is freed when this function returns
    else:
        seen = t.view(t.first)
    return _to_f32(np.ascontiguousarray(seen), t.converted[0]) if t.converted else seen


def target(out, shape, what):
    """Returns (F32 NumPy array that a result is written to, function to call afterwards, which copies it to a device).

    out: array for the result, contiguous F32 of this shape, or None for a new array; what: its name in errors.
    Raises ValueError if `out` has another type or shape."""
    if out is None:
        return np.empty(shape, np.float32), lambda: None
    if isinstance(out, np.ndarray):
        array, done, dtype, flags = out, lambda: None, out.dtype, out.flags
        good = dtype == np.float32 and flags.c_contiguous and flags.writeable
    else:
        t = _Dlpack(out)
        on_device = t.kind == _CUDA
        dtype, array = t.dtype, np.empty(t.shape, np.float32) if on_device else t.view(t.first)
        good = t.key == (2, 32) and t.extent == array.size * 4 and (on_device or array.flags.c_contiguous)
        done = (lambda: _move("cuMemcpyHtoD_v2", t.first, array.ctypes.data, t.extent)) if on_device else lambda: None
    if not good:
        raise ValueError("%s is an array of type %s; need F32, contiguous and writable" % (what, dtype))
    if array.shape != tuple(shape):
        raise ValueError("%s has shape %s, need %s" % (what, array.shape, tuple(shape)))
    return array, done


def _to_f32(bits, name):
    out = np.empty(bits.shape, np.float32)
    call("to_f32", floats(out), bits.ctypes.data, name.encode(), bits.size)
    return out


def f32(x, n_dims, what):
    """Returns x as a contiguous F32 NumPy array; raises ValueError unless it has n_dims dimensions and is numeric.

    what: the array's name in errors."""
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        x = _of_dlpack(x.detach() if hasattr(x, "detach") else x)
    else:
        x = np.asarray(x)
        if x.dtype == np.float16:
            x = _to_f32(np.ascontiguousarray(x).view(np.uint16), "F16")
        elif x.dtype.kind not in "fiu":
            raise ValueError("%s is an array of type %s; need integers or floats" % (what, x.dtype))
    if x.ndim != n_dims:
        raise ValueError("%s has %d dimensions, need %d" % (what, x.ndim, n_dims))
    return np.ascontiguousarray(x, np.float32)
