"""Shared functions of the Python tests. Each check prints one line in the format of tests/cli/lib.sh."""

import json
import struct
import subprocess
import sys

import numpy as np

n_failed = 0


def check(name, passed, why=""):
    global n_failed
    if passed:
        print("ok - " + name)
    else:
        n_failed += 1
        print("FAIL - %s%s" % (name, ": %s" % (why,) if why != "" else ""))


def refused(name, kind, pattern, call):
    """Checks that call() raises an exception of class `kind` whose message contains `pattern`."""
    try:
        got = call()
    except kind as e:
        check(name, pattern in str(e), str(e))
    else:
        check(name, False, "nothing was raised, but %r returned" % (got,))


def skip(name, why):
    print("skip - %s (%s)" % (name, why))


def finish():
    sys.exit(1 if n_failed else 0)


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def write_safetensors(path, tensors):
    """Writes a safetensors file of F32 arrays; tensors: {name: array}."""
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # aligns the data to 8 bytes
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x, np.float32).tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], np.float32).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def run_json(*words):
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def attention(q, k, v):
    """Returns attention in float64 of q [n, heads * group, dim] over k, v [t, heads, dim]."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k.astype(float), group, 1), np.repeat(v.astype(float), group, 1)
    s = np.einsum("qhd,khd->hqk", q.astype(float), k) / np.sqrt(q.shape[2])
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v)
