#!/usr/bin/env bash
# sass.sh - checks the machine code of attention and convolution kernels against tools/sass/sass-limits.txt.
#
#     tools/sass/sass.sh [--markdown]
#
# The script compiles attend_mma.cu and conv_mma.cu for sm_90, and attend_wgmma.cu, attend_bytes.cu and
# product_cuda.cu for sm_90a. From the machine code it checks the registers of warpgroups (setmaxnreg.py),
# instruction counts and modelled time (sass_model.py). It needs nvcc, nvdisasm (tools/sass/nvdisasm.sh) and
# Python 3; if one is missing, the exit status is 77.
set -uo pipefail
. "$(dirname "$0")/machine-code.sh"
machine_code harness/cache/attend_mma.cu sm_90 && machine_code harness/cache/attend_wgmma.cu sm_90a &&
    machine_code harness/cache/attend_bytes.cu sm_90a && machine_code harness/engine/product_cuda.cu sm_90a &&
    machine_code harness/engine/vae/conv_mma.cu sm_90 &&
    python3 tools/sass/setmaxnreg.py "$work"/{attend_wgmma,attend_bytes,product_cuda}.hex >/dev/null &&
    python3 tools/sass/sass_model.py "$work"/*.hex --limits tools/sass/sass-limits.txt "$@"
