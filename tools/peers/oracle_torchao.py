"""Compares kvreel's MX formats and NVFP4 with torchao's casts."""

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "safetensors", "torch", "torchao")
import torch  # noqa: E402
from torchao.prototype.mx_formats.config import ScaleCalculationMode as Mode  # noqa: E402
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2  # noqa: E402
from torchao.prototype.mx_formats.kernels import f4_unpacked_to_f32, unpack_uint4  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx  # noqa: E402
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale  # noqa: E402

report = oracle.Report("torchao")


def mx(x, kind, mode):
    x = torch.from_numpy(x)
    scale, data = to_mx(x, kind, 32, scaling_mode=mode)
    return to_dtype(data, scale, kind, 32, torch.float32).reshape(x.shape).numpy()


def nvfp4(x):
    """Encodes and decodes x as NVFP4 with one F32 scale for the whole tensor, like kvreel's option relative=true."""
    x = torch.from_numpy(x)
    flat = x.reshape(-1, x.shape[-1])
    whole = per_tensor_amax_to_scale(flat.abs().max())
    scale, data = nvfp4_quantize(flat, 16, whole)
    values = f4_unpacked_to_f32(unpack_uint4(data)).reshape(flat.shape[0], -1, 16)
    return (values * scale.float().reshape(flat.shape[0], -1, 1) * whole).reshape(x.shape).numpy()


rows = [("MXFP8", torch.float8_e4m3fn, Mode.FLOOR), ("MXFP8_E5M2", torch.float8_e5m2, Mode.FLOOR),
        ("MXFP6", DTYPE_FP6_E2M3, Mode.FLOOR), ("MXFP6_E3M2", DTYPE_FP6_E3M2, Mode.FLOOR),
        ("MXFP4", torch.float4_e2m1fn_x2, Mode.FLOOR), ("MXFP4_CEIL", torch.float4_e2m1fn_x2, Mode.RCEIL)]
for row, kind, mode in rows:
    k, v = oracle.inputs()
    report.add(row, *oracle.compare(oracle.decoded(row, k, v), [mx(x, kind, mode) for x in (k, v)]))
k, v = oracle.inputs()
v[5] /= 1e4  # inputs() multiplies token 5 by 1e4: with NVFP4's scale per tensor, all other tokens would round to 0
report.add("NVFP4", *oracle.compare(oracle.decoded("NVFP4", k, v), [nvfp4(x) for x in (k, v)],
                                      bound=2.0 ** -22))  # torchao multiplies the same three factors in another order
report.close(args.table)
