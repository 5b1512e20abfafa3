"""kvreel's KV-cache methods for Python.

    import kvreel
    block = kvreel.Method("RTN_INT4", group=16).encode(k, v)      # [tokens, heads, dim]: numpy, torch, DLPack
    k2, v2 = block.decode()                                       # numpy; torch.from_dlpack(k2) shares it
    out = block.attend(q)
    block.bytes()["resident"], block.hash()
    kvreel.Method("KIVI_INT2").predict("wan-1.3b", frames=42)["nominal_bytes"]
    kvreel.open("sweep.db").table("summary")                      # a DataFrame, or a dict of columns

What is stored and computed is what the program `kvreel` stores and computes: the same code runs.
"""

from ._database import Database, open
from ._lib import KvreelError, lib as _library
from ._methods import Block, Cache, Method, methods, registry
from ._version import VERSION as __version__

__all__ = ["Block", "Cache", "Database", "KvreelError", "Method", "attend", "decode", "encode", "library_version",
           "methods", "open", "predict", "registry"]


def library_version():
    return _library.kvreel_version().decode()


def encode(method, k, v, **options):
    """Method(method, **options).encode(k, v)"""
    return Method(method, **options).encode(k, v)


def decode(block):
    return block.decode()


def attend(q, k, v, method="BF16", **options):
    """q over k and v as `method` holds them."""
    return encode(method, k, v, **options).attend(q)


def predict(method, geometry="wan-1.3b", frames=21, **options):
    return Method(method, **options).predict(geometry, frames)
