"""ggml_lib.py - ctypes bindings of the ggml functions that the comparisons call.

libggml-base.so and libggml-cpu.so come from the wheel libggml-python, or from the folder --ggml (a
build for this CPU). All functions are declared in ggml.h or ggml-cpu.h. Structs that ggml fills in
have extra space at the end, so that a newer version with additional fields does not overflow them."""

import ctypes
import importlib.util
import pathlib

import common
import numpy as np

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8}  # enum ggml_type, the same numbers as in GGUF
FEATURES = ("avx2", "avx512", "avx512_vnni", "avx_vnni", "neon", "dotprod", "llamafile")
OVERHEAD = 1 << 20  # bytes of a context for tensor headers and the graph

address = ctypes.c_void_p


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", address), ("no_alloc", ctypes.c_bool)]


class Plan(ctypes.Structure):
    _fields_ = [
        ("work_size", ctypes.c_size_t),
        ("work_data", address),
        ("n_threads", ctypes.c_int),
        ("threadpool", address),
        ("spare", ctypes.c_char * 256),
    ]


class Traits(ctypes.Structure):
    _fields_ = [
        ("type_name", ctypes.c_char_p),
        ("block", ctypes.c_int64),
        ("block_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", ctypes.CFUNCTYPE(None, address, address, ctypes.c_int64)),
    ]


class TraitsCpu(ctypes.Structure):
    _fields_ = [("from_float", ctypes.CFUNCTYPE(None, address, address, ctypes.c_int64))]


DECLARED = {
    "ggml_version": (ctypes.c_char_p, []),
    "ggml_init": (address, [InitParams]),
    "ggml_free": (None, [address]),
    "ggml_new_tensor_4d": (address, [address, ctypes.c_int] + 4 * [ctypes.c_int64]),
    "ggml_get_data": (address, [address]),
    "ggml_flash_attn_ext": (address, 5 * [address] + 3 * [ctypes.c_float]),
    "ggml_new_graph": (address, [address]),
    "ggml_build_forward_expand": (None, [address, address]),
    "ggml_row_size": (ctypes.c_size_t, [ctypes.c_int, ctypes.c_int64]),
    "ggml_get_type_traits": (ctypes.POINTER(Traits), [ctypes.c_int]),
    "ggml_threadpool_params_init": (None, [address, ctypes.c_int]),
    "ggml_cpu_init": (None, []),
    "ggml_get_type_traits_cpu": (ctypes.POINTER(TraitsCpu), [ctypes.c_int]),
    "ggml_threadpool_new": (address, [address]),
    "ggml_threadpool_free": (None, [address]),
    "ggml_graph_plan": (Plan, [address, ctypes.c_int, address]),
    "ggml_graph_compute": (ctypes.c_int, [address, ctypes.POINTER(Plan)]),
}


def add_argument(parser):
    parser.add_argument("--ggml", metavar="DIR", help="folder of libggml-base.so and libggml-cpu.so; default: that of the wheel libggml-python")


def folder(args):
    if args.ggml:
        return pathlib.Path(args.ggml)
    found = importlib.util.find_spec("libggml")
    if not found:
        common.fail("ggml: no library; give --ggml DIR or install the wheel libggml-python (tools/peers/README.md)")
    home = pathlib.Path(found.origin).parent
    return next((home / d for d in ("lib64", "lib") if (home / d / "libggml-cpu.so").exists()), home)


class Ggml:
    def __init__(self, args):
        where = folder(args)
        try:
            parts = [
                ctypes.CDLL(str(where / f"libggml-{part}.so"), mode=ctypes.RTLD_GLOBAL) for part in ("base", "cpu")
            ]
        except OSError as e:
            common.fail(f"ggml: {e}")
        self.cpu = parts[1]
        for name, (result, arguments) in DECLARED.items():
            f = next((getattr(part, name) for part in parts if hasattr(part, name)), None)
            if f is None:
                common.fail(f"ggml: {where}: the library has no function {name}")
            f.restype, f.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), f)
        self.cpu_init()

    def about(self):
        has = [f for f in FEATURES if getattr(self.cpu, f"ggml_cpu_has_{f}")()]
        return f"ggml {self.version().decode()}, built for: {' '.join(has)}"

    def row_bytes(self, kind, n):
        return self.row_size(TYPES[kind], n)

    def encoder(self, kind):
        """Returns ggml's encoder f(source address, target address, number of elements)."""
        return self.get_type_traits_cpu(TYPES[kind]).contents.from_float

    def decoder(self, kind):
        return self.get_type_traits(TYPES[kind]).contents.to_float

    def coded(self, x, kind):
        """Encodes x, float32 [..., n], as ggml type `kind`; returns (bytes as uint8, decoded float32 [..., n])."""
        x = np.ascontiguousarray(x, np.float32)
        if kind == "F32":
            return x.view(np.uint8).reshape(-1), x
        raw = np.empty(self.row_bytes(kind, x.shape[-1]) * (x.size // x.shape[-1]), np.uint8)
        back = np.empty_like(x)
        self.encoder(kind)(x.ctypes.data, raw.ctypes.data, x.size)
        self.decoder(kind)(raw.ctypes.data, back.ctypes.data, x.size)
        return raw, back


class Attention:
    """A graph of one ggml_flash_attn_ext without a mask.

    q: float32 [heads, queries, d]; k, v: float32 [heads, keys, d], encoded as ggml type `kind`.
    `out` is float32 [queries, heads, d]; `held` has the decoded k and v."""

    def __init__(self, ggml, q, k, v, kind, threads):
        self.ggml = ggml
        heads, queries, d = q.shape
        keys = k.shape[1]
        size = OVERHEAD + 2 * q.nbytes + 2 * heads * keys * ggml.row_bytes(kind, d)
        self.context = ggml.init(InitParams(size, None, False))
        self.threadpool = None
        if not self.context:
            common.fail(f"ggml: cannot allocate a context of {size} bytes")
        (q, _), (k, k_held), (v, v_held) = self.put(q, "F32"), self.put(k, kind), self.put(v, kind)
        self.held = k_held, v_held
        out = ggml.flash_attn_ext(self.context, q, k, v, None, d**-0.5, 0.0, 0.0)
        self.graph = ggml.new_graph(self.context)
        ggml.build_forward_expand(self.graph, out)
        params = ctypes.create_string_buffer(4096)
        ggml.threadpool_params_init(params, threads)
        self.threadpool = ggml.threadpool_new(params)
        self.plan = ggml.graph_plan(self.graph, threads, self.threadpool)
        self.work = np.empty(self.plan.work_size + 1, np.uint8)
        self.plan.work_data = self.work.ctypes.data
        data = (ctypes.c_float * (queries * heads * d)).from_address(ggml.get_data(out))
        self.out = np.frombuffer(data, np.float32).reshape(queries, heads, d)

    def put(self, x, kind):
        heads, rows, d = x.shape
        raw, held = self.ggml.coded(x, kind)
        t = self.ggml.new_tensor_4d(self.context, TYPES[kind], d, rows, heads, 1)
        ctypes.memmove(self.ggml.get_data(t), raw.ctypes.data, raw.nbytes)
        return t, held

    def run(self):
        status = self.ggml.graph_compute(self.graph, ctypes.byref(self.plan))
        if status != 0:
            common.fail(f"ggml: ggml_graph_compute: status {status}")

    def close(self):
        self.out = None
        self.ggml.threadpool_free(self.threadpool)
        self.ggml.free(self.context)
