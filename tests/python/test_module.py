"""Compares the Python module kvreel with the program: test_module.py KVREEL DATABASE WORK"""

import ctypes
import gc
import sys

import numpy as np

import kvreel
from kvreel import _arrays
from kvreel._arrays import f32
from checks import attention, check, draw, finish, read_safetensors, refused, run_json, skip, write_safetensors

program, database, work = sys.argv[1:4]
TOKENS, HEADS, DIM = 96, 2, 64

check("the library and the module have the same version", kvreel.library_version() == kvreel.__version__)
listed = run_json(program, "list", "methods", "--json")
there = kvreel.registry()["methods"]
check("registry() has the methods of `kvreel list methods`", [m["name"] for m in listed] == [m["name"] for m in there])
check("registry() has the bits per element of `kvreel list methods`", [m["bits_per_element"] for m in listed] == [m["bits_per_element"] for m in there])

# --- blocks ---------------------------------------------------------------------------------

k, v, q = draw((TOKENS, HEADS, DIM), 1), draw((TOKENS, HEADS, DIM), 2), draw((5, 2 * HEADS, DIM), 3)
write_safetensors(work + "/kv.safetensors", {"k": k, "v": v})
for spec, options in (("RTN_INT4", {}), ("RTN_INT4", {"group": 32}), ("KIVI_INT2@study", {}), ("QAQ_INT4", {}),
                      ("QUAROT_KV_INT2", {}), ("AGE_TIER_INT2", {}), ("FLOWCACHE_PRUNE_INT4", {}), ("BF16", {})):
    name = " ".join([spec, *("%s=%s" % o for o in options.items())])
    told = run_json(program, "codec", "-m", spec, "-i", work + "/kv.safetensors", "-o", work + "/out.safetensors",
                    "-O", "tokens_per_frame=16", "-O", "frames_per_chunk=2", "--json",
                    *(x for o in options.items() for x in ("-O", "%s=%s" % o)))
    block = kvreel.Method(spec, options).encode(k, v, tokens_per_frame=16, frames_per_chunk=2)
    size, out = block.bytes(), read_safetensors(work + "/out.safetensors")
    k2, v2 = block.decode()
    check("%s: the stored bytes equal those of `kvreel codec`" % name, block.hash() == told["stored_sha256"])
    check("%s: the sizes equal those of `kvreel codec`" % name, (size["nominal"], size["resident"], size["bf16"]) ==
          (told["nominal_bytes"], told["resident_bytes"], told["bf16_bytes"]), size)
    check("%s: the decoded values equal those of `kvreel codec`" % name, np.array_equal(k2, out["k"]) and np.array_equal(v2, out["v"]))
    held = block.held()
    # FLOWCACHE_PRUNE_INT4 is excluded: FLOWCACHE methods can replace evicted tokens by zeros or by a mean token. The
    # function attention() does not weight a mean token by the number of tokens that it replaces.
    if spec != "FLOWCACHE_PRUNE_INT4":
        # The limit 2e-5 allows for rounding in F32 sums of 96 products of values below 8.
        check("%s: attend() equals attention over the decoded values" % name,
              np.max(np.abs(block.attend(q) - attention(q, k2[held], v2[held]))) <= 2e-5)
check("held() is False for some tokens of a pruning method, but not all", 0 < kvreel.Method("FLOWCACHE_PRUNE_INT4").encode(
    k, v, tokens_per_frame=8, frames_per_chunk=1).held().sum() < TOKENS)
check("the module's functions encode, decode and attend work",
      np.array_equal(kvreel.decode(kvreel.encode("RTN_INT4", k, v))[0], kvreel.Method("RTN_INT4").encode(k, v).decode()[0])
      and kvreel.attend(q, k, v, "RTN_INT8").shape == q.shape)

refused("an unknown method", kvreel.KvreelError, "did you mean 'RTN_INT4'", lambda: kvreel.Method("RTN_INT44"))
refused("an option value out of bounds", kvreel.KvreelError, "bits", lambda: kvreel.Method("RTN_INT4", bits=99))
refused("NVFP4 of 7 channels", kvreel.KvreelError, "", lambda: kvreel.encode("NVFP4", k[:, :, :7], v[:, :, :7]))
refused("k and v of different shapes", ValueError, "v has shape", lambda: kvreel.encode("RTN_INT4", k, v[1:]))
refused("k with two dimensions", ValueError, "2 dimensions, need 3", lambda: kvreel.encode("RTN_INT4", k[0], v[0]))
refused("an array of strings", ValueError, "k is an array of type", lambda: kvreel.encode("RTN_INT4", np.array([[["a"]]]), v))
refused("3 query heads for 2 KV heads", kvreel.KvreelError, "3 query heads, 2 KV heads", lambda: kvreel.encode("RTN_INT4", k, v).attend(q[:, :3]))
try:
    kvreel.Method("RTN_INT44")
except kvreel.KvreelError as e:
    check("the exception has the status ENOTFOUND", e.status == "ENOTFOUND", e.status)

# --- input and output arrays ------------------------------------------------------------------------------

half = k.astype(np.float16)
check("an FP16 array is encoded like its values in F32", kvreel.encode("F32", half, half).hash() ==
      kvreel.encode("F32", half.astype(np.float32), half.astype(np.float32)).hash())
wide = np.zeros((TOKENS, HEADS, 2 * DIM), np.float32)
wide[:, :, ::2] = k
check("a strided NumPy array is encoded like a contiguous one", kvreel.encode("F32", wide[:, :, ::2], v).hash() == kvreel.encode("F32", k, v).hash())


class OnlyDlpack:
    """An array type that has only the DLPack methods."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **more):
        return self.x.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.device if hasattr(self, "device") else self.x.__dlpack_device__()


check("an array with DLPack alone is encoded like a NumPy array", kvreel.encode("F32", OnlyDlpack(k), OnlyDlpack(v)).hash() == kvreel.encode("F32", k, v).hash())
check("a strided DLPack array is encoded like a contiguous one", kvreel.encode("F32", OnlyDlpack(wide[:, :, ::2]), v).hash() == kvreel.encode("F32", k, v).hash())
check("an FP16 DLPack array is encoded like a NumPy array", kvreel.encode("F32", OnlyDlpack(half), half).hash() == kvreel.encode("F32", half, half).hash())
away = OnlyDlpack(k)
away.device = (4, 0)
refused("an array of device type 4", ValueError, "x.cpu()", lambda: kvreel.encode("F32", away, v))
check("a contiguous F32 DLPack array is not copied", f32(OnlyDlpack(k), 3, "k").ctypes.data == k.ctypes.data)
view = f32(OnlyDlpack(k.copy()), 3, "k")
gc.collect()
check("an array read without a copy keeps its memory alive", np.array_equal(view, k))
empty = f32(OnlyDlpack(np.zeros((0, 2, 4), np.float32)), 3, "k")
check("an empty DLPack array keeps its shape", empty.shape == (0, 2, 4))
block = kvreel.encode("RTN_INT4", k, v)
into = np.empty_like(k), np.empty_like(v)
tied = tuple(OnlyDlpack(x) for x in into)
check("decode(out) writes to the given arrays", block.decode(tied) is tied and all(map(np.array_equal, into, block.decode())))
q, seen = draw((5, HEADS, DIM), 4), np.full((5, HEADS, DIM), np.nan, np.float32)
block.attend(q, out=OnlyDlpack(seen))
check("attend(out=...) writes to the given array", np.array_equal(seen, block.attend(q)))
for name, wrong, words in (("FP16", half[:5], "need F32"), ("a strided array", wide[:5, :, ::2], "contiguous"),
                           ("another shape", seen[:4], "need (5,")):
    refused("attend(out=...), DLPack: %s" % name, ValueError, words, lambda: block.attend(q, out=OnlyDlpack(wrong)))
    refused("attend(out=...), NumPy: %s" % name, ValueError, words, lambda: block.attend(q, out=wrong))


class HostDriver:
    """Replaces the CUDA driver: copies host memory, counts the copies, and returns error `fails` if it is not 0."""

    def __init__(self, fails=0):
        self.moved, self.fails = [], fails

    def __getattr__(self, name):
        def move(to, of, n):
            self.moved.append((name, n))
            return self.fails or ctypes.memmove(to, of, n) and 0

        return move


away.device = (2, 0)
driver = _arrays._driver
_arrays._driver = lambda: ctypes.CDLL("libcuda_is_not_here.so")
refused("a CUDA array without a driver", ValueError, "x.cpu()", lambda: kvreel.encode("F32", away, v))
host = HostDriver()
_arrays._driver = lambda: host
check("a CUDA array is copied to the host once", kvreel.encode("RTN_INT4", away, v).hash() == block.hash() and
      host.moved == [("cuMemcpyDtoH_v2", k.nbytes)], host.moved)
seen[:] = np.nan
back = OnlyDlpack(seen)
back.device = (2, 0)
block.attend(q, out=back)
check("attend() copies its result to a CUDA array", np.array_equal(seen, block.attend(q)) and host.moved[1:] == [("cuMemcpyHtoD_v2", seen.nbytes)])
_arrays._driver = lambda: HostDriver(fails=700)
refused("a copy that fails with a CUDA error", ValueError, "CUDA error 700", lambda: kvreel.encode("F32", away, v))
_arrays._driver = driver
check("np.from_dlpack accepts a decoded array", np.array_equal(np.from_dlpack(OnlyDlpack(kvreel.encode("F32", k, v).decode()[0])), k))
try:
    import torch
except ImportError:
    skip("tensors of PyTorch", "Python has no torch")
else:
    tk, tv = torch.from_numpy(k), torch.from_numpy(v)
    check("an F32 tensor is encoded like a NumPy array", kvreel.encode("F32", tk, tv).hash() == kvreel.encode("F32", k, v).hash())
    rounded = tk.to(torch.bfloat16)
    check("a BF16 tensor is encoded like its values in F32", kvreel.encode("F32", rounded, rounded).hash() ==
          kvreel.encode("F32", rounded.float().numpy(), rounded.float().numpy()).hash())
    check("a tensor that requires a gradient is encoded", kvreel.encode("F32", tk.clone().requires_grad_(), tv).hash() ==
          kvreel.encode("F32", k, v).hash())
    check("an F32 tensor is not copied", f32(tk, 3, "k").ctypes.data == tk.data_ptr() and
          f32(tk.clone().requires_grad_(), 3, "k").shape == tk.shape)
    tout = torch.full((5, HEADS, DIM), float("nan"))
    check("attend(out=...) writes to the given tensor", block.attend(torch.from_numpy(q), out=tout) is tout and
          np.array_equal(tout.numpy(), block.attend(q)))
    tcache = kvreel.Method("RTN_INT4").cache(n_layers=1, n_heads=HEADS, head_dim=DIM, tokens_per_frame=16,
                                             frames_per_chunk=6, capacity_frames=6)
    tall = torch.empty_like(tk)
    at = tall.data_ptr()
    with tcache.chunk(0, 6, clean=True):
        tcache.attend(0, tk, tk, tv, out=tall)
    check("Cache.attend reads and writes tensors", tall.data_ptr() == at and tall.isfinite().all() and
          not torch.equal(tall, tk))
    check("torch.from_dlpack accepts a decoded array", torch.equal(torch.from_dlpack(kvreel.encode("F32", k, v).decode()[0]), tk))

# --- cache of a rollout ----------------------------------------------------------------------

cache = kvreel.Method("RTN_INT4").cache(n_layers=2, n_heads=2 * HEADS, n_kv_heads=HEADS, head_dim=DIM,
                                        tokens_per_frame=16, frames_per_chunk=2, capacity_frames=6)
for chunk in range(3):
    at = slice(32 * chunk, 32 * chunk + 32)
    for clean in (False, True):
        with cache.chunk(2 * chunk, 2, clean=clean):
            for layer in range(2):
                if clean and layer:
                    cache.commit(layer, k[at], v[at])
                    continue
                cache.attend(layer, draw((32, 2 * HEADS, DIM), chunk), k[at], v[at])
out = kvreel.Method("F32").cache(n_layers=1, n_heads=HEADS, head_dim=DIM, tokens_per_frame=16, frames_per_chunk=6,
                                 capacity_frames=6, exact_f32=True)
with out.chunk(0, 6, clean=True):
    whole = out.attend(0, draw((96, HEADS, DIM), 9), k, v)
check("a pass attends to its own tokens, with an F32 cache", np.max(np.abs(whole - attention(draw((96, HEADS, DIM), 9), k, v))) <= 2e-5)
check("an F32 cache stores the keys of the pass unchanged", np.array_equal(out.read(0)[0], k))
k3, v3 = cache.read(1)
check("a cache has the tokens of three chunks", k3.shape == (96, HEADS, DIM) and cache.bytes()["tokens"] == 96)
# Bound of the error: half a quantization step of 4-bit codes for values between -4.5 and 4.5, plus the rounding to BF16
# before encoding.
check("the error of the cached keys is within 0.4, but not 0", 0 < np.max(np.abs(k3 - k)) <= 0.4, np.max(np.abs(k3 - k)))
check("the cache's size is twice the size of one layer's block", cache.bytes()["resident"] == 2 * kvreel.Method("RTN_INT4").encode(
    k, v, tokens_per_frame=16, frames_per_chunk=2).bytes()["resident"])
check("times() has the times of encode and attend", cache.times()["encode"] > 0 and cache.times()["attend"] > 0)
refused("begin() inside a pass", kvreel.KvreelError, "before end_pass", lambda: (cache.begin(0, 2, True), cache.begin(0, 2, True)))
refused("commit() with more tokens than the pass has", ValueError, "the pass needs", lambda: cache.commit(0, k, v))
cache.reset()
check("reset() removes all tokens", cache.bytes()["resident"] == 0)
refused("an unknown attention path", kvreel.KvreelError, "unknown attention path", lambda: kvreel.Method("BF16").cache(
    n_layers=1, n_heads=1, head_dim=8, tokens_per_frame=1, frames_per_chunk=1, capacity_frames=1, path="short"))

# --- predictions and databases --------------------------------------------------------------

told = run_json(program, "predict", "-m", "KIVI_INT2", "--geometry", "wan-1.3b", "--frames", "165", "--json")
here = kvreel.predict("KIVI_INT2", "wan-1.3b", told["latent_frames"])
check("predict() equals `kvreel predict`", (here["nominal_bytes"], here["bf16_bytes"]) ==
      (told["nominal_bytes"], told["bf16_bytes"]), here)
refused("an unknown geometry", kvreel.KvreelError, "geometry", lambda: kvreel.predict("BF16", "wan-2", 3))


def columns(table):
    return list(table)  # column names of a DataFrame or of a dict


with kvreel.open(database) as db:
    rows = run_json(program, "query", "--db", database, "--json", "SELECT method, n FROM (SELECT method, count(*) n "
                    "FROM summary GROUP BY method ORDER BY method)")
    table = db.query("SELECT method, count(*) n FROM summary GROUP BY method ORDER BY method")
    check("query() returns the columns in order", columns(table) == ["method", "n"])
    check("query() returns the rows of `kvreel query`", list(table["method"]) == [r["method"] for r in rows] and len(rows) > 0)
    check("the view summary and the table cell are found", "compression" in columns(db.table("summary")) and "cell" in db.names())
    every = True
    for name in db.names():
        every = every and len(columns(db.table(name))) > 0
    check("every table and view can be read", every)
    refused("an unknown table", KeyError, "the database has", lambda: db.table("sumary"))
    refused("a statement that writes", Exception, "readonly", lambda: db.query("DELETE FROM cell"))
try:
    import pandas  # noqa: F401
except ImportError:
    skip("data frames", "Python has no pandas")
    check("without pandas, query() returns a dict of columns", isinstance(table, dict))
else:
    check("with pandas, query() returns a DataFrame", isinstance(table, pandas.DataFrame))
refused("a missing database file", FileNotFoundError, "no database", lambda: kvreel.open(work + "/absent.db"))
finish()
