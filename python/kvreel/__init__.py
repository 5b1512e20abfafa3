"""kvreel's KV-cache methods for Python.

    import kvreel
    block = kvreel.Method("RTN_INT4", group=16).encode(k, v)      # [tokens, heads, dim]: numpy, torch, DLPack
    k2, v2 = block.decode()                                       # NumPy; torch.from_dlpack(k2) shares k2's memory
    out = block.attend(q)
    block.bytes()["resident"], block.hash()
    kvreel.Method("KIVI_INT2").predict("wan-1.3b", frames=42)["nominal_bytes"]
    kvreel.open("sweep.db").table("summary")                      # a DataFrame, or a dict of columns

The module calls libkvreel.so, the same code as in the program `kvreel`, so results are bit-equal.
"""

from ._database import Database, open
from ._lib import KvreelError, lib as _library
from ._methods import Block, Cache, Method, methods, registry
from ._version import VERSION as __version__

__all__ = ["Block", "Cache", "Database", "KvreelError", "Method", "attend", "decode", "encode", "library_version",
           "methods", "open", "predict", "registry"]


def library_version():
    """Returns the version of libkvreel.so, such as "0.1.0"."""
    return _library.kvreel_version().decode()


def encode(method, k, v, **options):
    """Encodes k, v [tokens, heads, dim] with the method of this name; returns a Block. See Method.encode."""
    return Method(method, **options).encode(k, v)


def decode(block):
    """Returns the block's decoded (k, v), F32 NumPy arrays [tokens, heads, dim]."""
    return block.decode()


def attend(q, k, v, method="BF16", **options):
    """Encodes k, v [tokens, heads, dim] and returns attention of q over the encoded block. See Block.attend."""
    return encode(method, k, v, **options).attend(q)


def predict(method, geometry="wan-1.3b", frames=21, **options):
    """Returns the predicted cache size of a rollout of `frames` latent frames, in bytes. See Method.predict."""
    return Method(method, **options).predict(geometry, frames)
