"""Compares kvreel's Q8_0, Q5_1 and Q4_0 with llama.cpp's NumPy quantizers (package gguf)."""

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "safetensors", "gguf")
from gguf import GGMLQuantizationType, quants  # noqa: E402

report = oracle.Report("gguf")
for row in ("Q8_0", "Q5_1", "Q4_0"):
    kind = GGMLQuantizationType[row]
    k, v = oracle.inputs()
    theirs = [quants.dequantize(quants.quantize(x.reshape(-1, x.shape[-1]), kind), kind).reshape(x.shape) for x in (k, v)]
    report.add(row, *oracle.compare(oracle.decoded(row, k, v), theirs))
report.close(args.table)
