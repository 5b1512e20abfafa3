# host.py - the process of a method written in Python: `python3 -c THIS ROLE FILE`, with a socket at 3.
# ROLE is describe (what the file says of itself), encode or decode: the process that decodes never saw
# what was coded. Messages: seven int64 (verb or status, tokens, heads, dim, three lengths), three parts.
import ctypes
import importlib.util
import json
import os
import socket
import struct
import sys
import traceback

HEAD = struct.Struct("<7q")
OK, WRONG, MEMORY = 0, 1, 2
LONGEST = 4000  # characters of what is told of a failure

role, path = sys.argv[1:3]
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: not to outlive who asks
line = socket.socket(fileno=3)
# What the method prints belongs to the log.
os.dup2(2, 1)
sys.dont_write_bytecode = True
sys.path[0] = os.path.dirname(path)


def receive(n):
    out, at = memoryview(bytearray(n)), 0
    while at < n:
        got = line.recv_into(out[at:])
        if not got:
            os._exit(0)
        at += got
    return out


def answer(status, shape, *parts):
    views = [memoryview(p).cast("B") if len(p) else memoryview(b"") for p in (*parts, b"", b"", b"")[:3]]
    line.sendall(HEAD.pack(status, *shape, *map(len, views)))
    for view in views:
        line.sendall(view)


def fail(e):
    """The sentence, and where in the method's own file."""
    own = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == path]
    where = "line %d: " % own[-1].lineno if own else ""
    text = "%s%s: %s" % (where, type(e).__name__, e) if str(e) else where + type(e).__name__
    answer(MEMORY if isinstance(e, MemoryError) else WRONG, (0, 0, 0), text[:LONGEST].encode(errors="replace"))


def load():
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name in ("encode", "decode"):
        if not callable(getattr(module, name, None)):
            raise TypeError("the file has no function %s" % name)
    return module


def option(name, row):
    default, low, high, text = row
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (default, low, high)):
        raise TypeError("OPTIONS: %s: need (default, lowest, highest, 'what it is')" % name)
    whole = all(isinstance(x, int) for x in (default, low, high))
    return {"name": str(name), "whole": whole, "default": default, "min": low, "max": high, "help": str(text)}


def describe(module):
    name = str(getattr(module, "NAME", os.path.basename(path)[:-3].upper()))
    title = (module.__doc__ or "a method written in Python").strip().splitlines()[0].rstrip(".")
    options = [option(*item) for item in getattr(module, "OPTIONS", {}).items()]
    return json.dumps({"name": name, "title": title, "family": str(getattr(module, "FAMILY", name)),
                       "paper": str(getattr(module, "PAPER", "-")), "version": str(getattr(module, "VERSION", "1")),
                       "options": options}).encode()


def stored(what, x):
    """As bytes, to the letter: what is counted is what decode is given."""
    if x is None:
        return b""
    if hasattr(x, "tobytes"):
        return x.tobytes()
    if isinstance(x, (bytes, bytearray)):
        return bytes(x)
    raise TypeError("encode returned %s of type %s; need bytes, an array, or None" % (what, type(x).__name__))


def coded(module, shape, options, k, v):
    import numpy
    k, v = (numpy.frombuffer(x, numpy.float32).reshape(shape) for x in (k, v))
    got = module.encode(k, v, **options)
    if not isinstance(got, tuple) or len(got) != 2:
        raise TypeError("encode returned %s; need (bytes, state)" % type(got).__name__)
    return stored("bytes", got[0]), stored("a state", got[1])


def decoded(module, shape, options, data, state):
    import numpy
    got = module.decode(bytes(data), bytes(state), shape, **options)
    if not isinstance(got, tuple) or len(got) != 2:
        raise TypeError("decode returned %s; need (k, v)" % type(got).__name__)
    out = []
    for name, x in zip("kv", got):
        x = numpy.asarray(x)
        if x.shape != shape:
            raise ValueError("decode returned %s of shape %s, need %s" % (name, x.shape, shape))
        out.append(numpy.ascontiguousarray(x, numpy.float32).reshape(-1).data)
    return out


def serve(module):
    while True:
        head = HEAD.unpack(receive(HEAD.size))
        shape, (options, a, b) = tuple(head[1:4]), [receive(n) for n in head[4:]]
        try:
            options = json.loads(bytes(options))
            answer(OK, shape, *(coded if role == "encode" else decoded)(module, shape, options, a, b))
        except Exception as e:
            fail(e)


try:
    module = load()
    answer(OK, (0, 0, 0), describe(module))
except Exception as e:
    fail(e)
    sys.exit(1)
if role != "describe":
    serve(module)
