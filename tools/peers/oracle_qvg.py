"""Compares kvreel's QVG methods with Quant VideoGen's kernels, on a GPU or in Triton's interpreter.

The decoded values of the scalar quantizer alone must be equal. For the whole codec (k-means stages and quantizer),
bytes must be equal, and mean errors over 4 random initializations must agree within 4 standard errors."""

import os
import sys

if sys.flags.optimize == 0:  # -O disables Quant VideoGen's assertions that tensors are on a CUDA device
    os.execv(sys.executable, [sys.executable, "-O", *sys.argv])

import json  # noqa: E402
import subprocess  # noqa: E402

import numpy as np  # noqa: E402

import oracle  # noqa: E402

args = oracle.arguments(__doc__)
oracle.needs("numpy", "safetensors", "torch")
import torch  # noqa: E402

E4M3, DRAWS, CENTROIDS = torch.float8_e4m3fn, 4, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
oracle.needs("triton")
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402

autotune = triton.autotune  # use one tile size: newer Triton versions reject the kernels' autotune keys
triton.autotune = lambda configs, key, **more: autotune(configs[-1:] if DEVICE == "cpu" else configs[:1], [])
if DEVICE == "cpu":

    @triton.jit
    def away(x):
        """Replaces libdevice.round, which the interpreter lacks: rounds half away from zero."""
        whole = tl.floor(tl.abs(x))
        whole += tl.where(tl.abs(x) - whole >= 0.5, 1.0, 0.0)
        return tl.where(x < 0, -whole, whole)

    def convert(x, input_type, output_type, mode):
        """Converts F32 to E4M3 with PyTorch, because the interpreter drops the carry when rounding the mantissa."""
        if output_type != tl.float8e4nv or input_type != tl.float32:
            return convert_any(x, input_type, output_type, mode)
        return torch.from_numpy(np.ascontiguousarray(x, np.float32)).to(E4M3).view(torch.uint8).numpy()

    libdevice.round = away
    convert_any, triton.runtime.interpreter._convert_float = triton.runtime.interpreter._convert_float, convert
np.seterr(all="ignore")  # masked lanes compute invalid values
oracle.needs("quant_videogen.real.prq")
from quant_videogen.real.prq import prq_dequant, prq_quant  # noqa: E402
from quant_videogen.real.quant_pack import quant_pack  # noqa: E402

report = oracle.Report("quant-videogen")


def tensor(x):
    """Converts an array [tokens, heads, dim] to Quant VideoGen's layout [1, heads, tokens, dim]."""
    return torch.from_numpy(x).transpose(0, 1)[None].contiguous().to(DEVICE)


def grid(x, bits, group, asymmetric):
    codes, scale, zero = quant_pack(tensor(x), group, bits, E4M3, asymmetric=asymmetric)
    y = codes.float().unflatten(-1, (-1, group)) * scale.float()[..., None]
    if asymmetric:
        y += zero.float()[..., None]
    return y.flatten(-2)[0].transpose(0, 1).cpu().numpy()


def whole(x, stages, bits, group, asymmetric):
    """Encodes and decodes x with the whole codec; returns (decoded values, bytes), with centroids counted as BF16."""
    centroids, ids, codes, scale, zero = prq_quant(tensor(x), stages, CENTROIDS, group, bits, E4M3, max_iters=2, tol=-1,
                                                   PACK_OUTPUT_INT8=True, CLUSTER_ID_INT8=True, asymmetric=asymmetric)
    y = prq_dequant(centroids, ids, codes, scale, group, bits, True, True, torch.float32, zero)
    held = [*ids, codes, scale] + ([zero] if asymmetric else [])
    size = sum(t.numel() * t.element_size() for t in held) + sum(2 * c.numel() for c in centroids)
    return y[0].transpose(0, 1).cpu().numpy(), size


def error(ours, theirs):
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


rng = np.random.default_rng(7)
k, v = rng.standard_normal((2, 96, 2, 64)).astype(np.float32)
k[:, :, 5] *= 40
for row, bits, stages, group, asymmetric in (("QVG_INT2", 2, 1, 64, False), ("QVG_INT4", 4, 1, 64, False),
                                             ("QVG_PRO_INT2", 2, 4, 16, False), ("QVG_PRO_INT4", 4, 4, 16, False),
                                             ("QVG_INT2_ASYM", 2, 1, 64, True), ("QVG_INT4_ASYM", 4, 1, 64, True)):
    ints = "ints(bits=%d,group=%d,scale=e4m3,zero=%s,round=away)" % (bits, group, "e4m3" if asymmetric else "none")
    good, said = oracle.compare(oracle.decoded(row, k, v, "codec=" + ints), [grid(x, bits, group, asymmetric) for x in (k, v)])
    report.add(row, good, "grid: " + said)
    torch.manual_seed(1)
    mine, yours = [], []
    for draw in range(DRAWS):
        decoded = oracle.decoded(row, k, v, "k=%d" % CENTROIDS, "seed=%d" % draw)
        theirs = [whole(x, stages, bits, group, asymmetric) for x in (k, v)]
        mine.append([error(a, x) for a, x in zip(decoded, (k, v))])
        yours.append([error(a, x) for (a, _), x in zip(theirs, (k, v))])
    size = sum(b for _, b in theirs)
    mine, yours = np.array(mine), np.array(yours)
    noise = 4 * np.sqrt((mine.var(0, ddof=1) + yours.var(0, ddof=1)) / DRAWS)
    words = [oracle.KVREEL, "codec", "-m", row, "--draw", "96x2x64", "--json"]
    for option in ("k=%d" % CENTROIDS, "tokens_per_frame=96", "frames_per_chunk=1"):
        words += ["-O", option]
    held = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["nominal_bytes"]
    off = np.abs(mine.mean(0) - yours.mean(0))
    report.add(row, bool((off <= noise).all()) and size == held,
               "errors of keys and values %.4f, %.4f, Quant VideoGen's %.4f, %.4f (%d random initializations of %d centroids, "
               "4 standard errors %.4f, %.4f); %d bytes, Quant VideoGen's %d" % (*mine.mean(0), *yours.mean(0), DRAWS, CENTROIDS, *noise, held, size))
report.close(args.table)
