# host.py - the process that runs a method written in Python: `python3 -c SOURCE ROLE FILE`, SOURCE being this file.
# ROLE is describe, encode or decode. Encoder and decoder are different processes, so decode only has stored bytes.
# File descriptor 3 is a socket to kvreel. A message is seven int64 and three byte strings. The numbers of a request are
# form, tokens, heads, dim and the strings' lengths. Its strings are a JSON object, then K and V for encode, or data and
# state for decode. The numbers of a reply are status, form, 0, 0 and the strings' lengths; the strings are the results.
# `form` is a bit mask: bit 0 says that the data is structured (see the conversion below), bit 1 that the state is.
import ctypes
import importlib.util
import inspect
import json
import os
import socket
import struct
import sys
import traceback

HEAD = struct.Struct("<7q")
REPLY_OK, REPLY_EXCEPTION, REPLY_NOMEM = 0, 1, 2  # status; talk.c has the same values
LONGEST = 4000  # characters of a failure message

role, path = sys.argv[1:3]
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: end when kvreel ends
line = socket.socket(fileno=3)
# Redirect the method's standard output to standard error, which kvreel logs.
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
    """Replies with exception e as one message, with the last line number in the method's file if there is one."""
    own = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == path]
    where = "line %d: " % own[-1].lineno if own else ""
    text = "%s%s: %s" % (where, type(e).__name__, e) if str(e) else where + type(e).__name__
    status = REPLY_NOMEM if isinstance(e, MemoryError) else REPLY_EXCEPTION
    answer(status, (0, 0, 0), text[:LONGEST].encode(errors="replace"))


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
    if not isinstance(row, (tuple, list)) or len(row) != 4 or not all(
            isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < float("inf") for x in row[:3]):
        raise TypeError("OPTIONS: %s: need (default, lowest, highest, 'what it is')" % name)
    default, low, high, text = row
    whole = all(isinstance(x, int) for x in (default, low, high))
    return {"name": str(name), "whole": whole, "default": default, "min": low, "max": high, "help": str(text)}


def describe(module):
    name = str(getattr(module, "NAME", os.path.basename(path)[:-3].upper()))
    title = ((module.__doc__ or "").strip().splitlines() or ["a method written in Python"])[0].rstrip(".")
    options = [option(*item) for item in getattr(module, "OPTIONS", {}).items()]
    return json.dumps({"name": name, "title": title, "family": str(getattr(module, "FAMILY", name)),
                       "paper": str(getattr(module, "PAPER", "-")), "version": str(getattr(module, "VERSION", "1")),
                       "options": options}).encode()


# --- conversion of encode's results to bytes ----------------------------------------------------
#
# encode returns data and state. bytes, a single array or None are stored as their bytes, and decode receives bytes.
# A tuple, list or dict is structured: it is stored as a description of its elements followed by their bytes.
# decode receives the same structure, with NumPy arrays and torch tensors restored. All stored bytes, including the
# description, count as the method's size.


def torch():
    """Returns the module torch if the method has imported it, else None."""
    return sys.modules.get("torch")


def is_tensor(x):
    return torch() is not None and isinstance(x, torch().Tensor)


def is_array(x):
    return hasattr(x, "__dlpack__") or hasattr(x, "__array__") or hasattr(x, "__array_interface__")


def as_numpy(x):
    """Converts an object with __array__ or DLPack to a NumPy array. Torch floats, such as BF16, become F32."""
    import numpy
    if is_tensor(x):
        x = x.detach().cpu()
        return (x.float() if x.is_floating_point() else x).numpy()
    if hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
        return numpy.asarray(x)
    return numpy.from_dlpack(x)


def dtype_name(what, t):
    import numpy
    if t.isbuiltin == 1 and t.kind in "biufc":
        return t.str
    try:
        if numpy.dtype(t.name) == t:  # ml_dtypes' bfloat16, float8_e4m3fn, ...
            return t.name
    except TypeError:
        pass
    raise TypeError("%s: arrays of %s are not stored" % (what, t))


def raw(what, x):
    """Returns (b"t" for torch or b"n" for NumPy, dtype name, shape, bytes) of array x; what: its name in errors."""
    import numpy
    if is_tensor(x):
        x = x.detach().cpu().contiguous()
        flat = x.reshape(-1)
        return b"t", str(x.dtype)[len("torch."):], tuple(x.shape), bytes(flat.view(torch().uint8).numpy()) if x.numel() else b""
    x = numpy.asarray(as_numpy(x))
    return b"n", dtype_name(what, x.dtype), x.shape, x.tobytes()


def number(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def text(s):
    s = s.encode()
    return number(len(s)) + s


def describe_value(what, x, out, data):
    if x is None:
        out.append(b"0")
    elif isinstance(x, bool):
        out.append(b"+" if x else b"-")
    elif isinstance(x, int):
        out += [b"i", number(2 * x if x >= 0 else -2 * x - 1)]
    elif isinstance(x, float):
        out += [b"f", struct.pack("<d", x)]
    elif isinstance(x, str):
        out += [b"s", text(x)]
    elif isinstance(x, (bytes, bytearray, memoryview)):
        out += [b"b", number(len(bytes(x)))]
        data.append(bytes(x))
    elif isinstance(x, dict):
        out += [b"d", number(len(x))]
        for key, value in x.items():
            if not isinstance(key, str):
                raise TypeError("%s: a key of type %s; need str" % (what, type(key).__name__))
            out.append(text(key))
            describe_value("%s[%r]" % (what, key), value, out, data)
    elif isinstance(x, (tuple, list)):
        out += [b"(" if isinstance(x, tuple) else b"[", number(len(x))]
        for i, value in enumerate(x):
            describe_value("%s[%d]" % (what, i), value, out, data)
    elif is_array(x):
        kind, name, shape, held = raw(what, x)
        out += [kind, text(name), number(len(shape)), *map(number, shape)]
        data.append(held)
    else:
        raise TypeError("encode returned %s of type %s; need bytes, an array or tensor, a number, a text, "
                        "None, or tuples, lists and dicts of them" % (what, type(x).__name__))


def stored(what, x):
    """Converts a value to bytes; returns (whether it is structured, bytes). what: its name in errors."""
    if x is None:
        return False, b""
    if isinstance(x, (bytes, bytearray, memoryview)):
        return False, bytes(x)
    if is_array(x):
        return False, raw(what, x)[3]
    if not isinstance(x, (tuple, list, dict)):
        raise TypeError("encode returned %s of type %s; need bytes, an array or tensor, None, or tuples, lists "
                        "and dicts of them" % (what, type(x).__name__))
    out, data = [], []
    describe_value(what, x, out, data)
    out = b"".join(out)
    return True, number(len(out)) + out + b"".join(data)


class Reader:
    def __init__(self, held):
        self.held, self.at, self.data = held, 0, 0
        n = self.number()
        self.data = self.at + n

    def take(self, n):
        self.at += n
        return self.held[self.at - n:self.at]

    def take_data(self, n):
        self.data += n
        return bytearray(self.held[self.data - n:self.data])

    def number(self):
        out = shift = 0
        while True:
            b = self.held[self.at]
            self.at += 1
            out |= (b & 127) << shift
            if b < 128:
                return out
            shift += 7

    def text(self):
        return self.take(self.number()).decode()

    def array(self, kind):
        import numpy
        name, shape = self.text(), tuple(self.number() for _ in range(self.number()))
        count = 1
        for extent in shape:
            count *= extent
        if kind == b"t":
            import torch
            t = getattr(torch, name)
            held = self.take_data(count * torch.empty(0, dtype=t).element_size())
            return (torch.frombuffer(held, dtype=t) if held else torch.empty(0, dtype=t)).reshape(shape)
        try:
            t = numpy.dtype(name)
        except TypeError:
            import ml_dtypes
            t = numpy.dtype(getattr(ml_dtypes, name))
        return numpy.frombuffer(self.take_data(count * t.itemsize), t).reshape(shape)

    def value(self):
        kind = self.take(1)
        if kind in b"0+-":
            return {b"0": None, b"+": True, b"-": False}[kind]
        if kind == b"i":
            n = self.number()
            return n // 2 if n % 2 == 0 else -(n + 1) // 2
        if kind == b"f":
            return struct.unpack("<d", self.take(8))[0]
        if kind == b"s":
            return self.text()
        if kind == b"b":
            return bytes(self.take_data(self.number()))
        if kind == b"d":
            return {self.text(): self.value() for _ in range(self.number())}
        if kind in b"([":
            values = [self.value() for _ in range(self.number())]
            return tuple(values) if kind == b"(" else values
        return self.array(kind)


def restored(structured, held):
    return Reader(held).value() if structured else held


# --- calls of the method's functions ------------------------------------------------------------


class Context:
    """Layer, heads and token positions of a block: `ctx` of encode(k, v, ctx) and decode(data, state, shape, ctx)."""

    def __init__(self, shape, job):
        n, heads, _ = shape
        self.layer, self.n_layers = job["layer"], job["n_layers"]
        self.heads = range(job["head0"], job["head0"] + heads)
        self.tokens_per_frame, self.frames_per_chunk = job["tokens_per_frame"], job["frames_per_chunk"]
        self._n, self._tok0, self._row, self._list = n, job["tok0"], job["row"], job.get("list")
        first = self._list[0] if self._list else self._tok0
        self.frame = first // self.tokens_per_frame if self.tokens_per_frame else 0
        self.chunk = self.frame // self.frames_per_chunk if self.frames_per_chunk else 0

    @property
    def tokens(self):
        """int64 [tokens]: the index of each token in the whole video."""
        import numpy
        return numpy.array(self._list, numpy.int64) if self._list else numpy.arange(self._tok0, self._tok0 + self._n)

    @property
    def positions(self):
        """int64 [tokens, 3]: frame, row and column of each token, the positions of RoPE."""
        import numpy
        frame, s = numpy.divmod(self.tokens, self.tokens_per_frame or self._n)
        row, column = numpy.divmod(s, self._row or self.tokens_per_frame or self._n)
        return numpy.stack([frame, row, column], axis=1)


def takes_context(module, name, n_usual):
    """Whether function `name` has a positional parameter for the context besides n_usual arguments and its options."""
    own = getattr(module, "OPTIONS", {})
    try:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in own]
    return len(places) > n_usual


def coded(module, shape, job, form, k, v):
    import numpy
    k, v = (numpy.frombuffer(x, numpy.float32).reshape(shape) for x in (k, v))
    context = [Context(shape, job)] if takes_context(module, "encode", 2) else []
    got = module.encode(k, v, *context, **job["options"])
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise TypeError("encode returned %s; need (bytes, state)" % type(got).__name__)
    (data_form, data), (state_form, state) = stored("bytes", got[0]), stored("a state", got[1])
    return data_form | state_form << 1, data, state


def decoded(module, shape, job, form, data, state):
    import numpy
    context = [Context(shape, job)] if takes_context(module, "decode", 3) else []
    got = module.decode(restored(form & 1, bytes(data)), restored(form & 2, bytes(state)), shape, *context, **job["options"])
    if is_array(got) and len(got) == 2:
        got = got[0], got[1]
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise TypeError("decode returned %s; need (k, v)" % type(got).__name__)
    out = []
    for name, x in zip("kv", got):
        x = as_numpy(x) if is_array(x) else numpy.asarray(x)
        if x.shape != shape:
            raise ValueError("decode returned %s of shape %s, need %s" % (name, x.shape, shape))
        out.append(numpy.ascontiguousarray(x, numpy.float32).reshape(-1).data)
    return 0, *out


def serve(module):
    while True:
        head = HEAD.unpack(receive(HEAD.size))
        form, shape, (job, a, b) = head[0], tuple(head[1:4]), [receive(n) for n in head[4:]]
        try:
            form, *parts = (coded if role == "encode" else decoded)(module, shape, json.loads(bytes(job)), form, a, b)
            answer(REPLY_OK, (form, 0, 0), *parts)
        except Exception as e:
            fail(e)


try:
    module = load()
    answer(REPLY_OK, (0, 0, 0), describe(module))
except Exception as e:
    fail(e)
    sys.exit(1)
if role != "describe":
    serve(module)
