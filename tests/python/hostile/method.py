"""A method that fails in the way its option selects; files named nameless and unreadable fail when loaded"""
import ctypes
import os
import sys
import time

import numpy as np

WAYS = ("raises crashes exits hangs memory untyped single huge forges hides nan short chatters").split()
FILE = os.path.basename(__file__)[:-3]
NAME = "two words" if FILE == "nameless" else "BAD"
OPTIONS = {"way": (0, 0, len(WAYS) - 1, "index of the failure in WAYS")}
if FILE == "unreadable":
    raise RuntimeError("not today")


def encode(k, v, way):
    way = WAYS[way]
    data = np.stack([k, v]).astype(np.float16)
    if way == "raises":
        raise ValueError("no codes for you")
    if way == "crashes":
        ctypes.string_at(0)
    if way == "exits":
        os._exit(3)
    if way == "hangs":
        time.sleep(3600)
    if way == "memory":
        raise MemoryError
    if way == "untyped":
        return {1, 2, 3}, None
    if way == "single":
        return data
    if way == "huge":
        return b"x" * (9 * data.nbytes), None
    if way == "forges":
        os.write(3, b"y" * 4096)
    if way == "chatters":
        print("words on stdout", flush=True)
    if way == "hides":
        sys.modules[__name__].kept = data
        return b"", b""
    return data, None


def decode(data, state, shape, way):
    way = WAYS[way]
    if way == "hides":
        return tuple(sys.modules[__name__].kept.astype(np.float32))
    x = np.frombuffer(data, np.float16).reshape(2, *shape).astype(np.float32)
    if way == "nan":
        x[1, 0, 0, 3] = np.nan
    if way == "short":
        x = x[:, :-1]
    return x[0], x[1]
