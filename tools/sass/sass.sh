#!/usr/bin/env bash
# sass.sh - the machine code of the attention kernels, held to tools/sass/sass-limits.txt.
#
#     tools/sass/sass.sh [--markdown]
#
# Compiles harness/cache/attend_mma.cu for sm_90, attend_wgmma.cu, attend_bytes.cu and harness/engine/product_cuda.cu
# for sm_90a, and reads what nvcc made of it: registers of warp groups (setmaxnreg.py), instructions and time
# (sass_model.py). Needs nvcc, nvdisasm (tools/sass/nvdisasm.sh) and Python 3. One that is missing is named, and the exit status is 77.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=$(bash tools/sass/nvdisasm.sh 2>/dev/null) || nvdisasm=nvdisasm
for tool in "$nvcc" "$nvdisasm" python3; do
    command -v "$tool" >/dev/null || { echo "sass: skipped, there is no $tool" >&2; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
machine_code() { # machine_code NAME ARCH
    local name
    name=$(basename "$1" .cu)
    "$nvcc" -I. -std=c++17 -O3 -fmad=false "-arch=$2" -cubin -o "$work/$name.cubin" "$1" &&
        "$nvdisasm" -hex "$work/$name.cubin" >"$work/$name.hex"
}
machine_code harness/cache/attend_mma.cu sm_90 && machine_code harness/cache/attend_wgmma.cu sm_90a &&
    machine_code harness/cache/attend_bytes.cu sm_90a && machine_code harness/engine/product_cuda.cu sm_90a &&
    python3 tools/sass/setmaxnreg.py "$work"/{attend_wgmma,attend_bytes,product_cuda}.hex >/dev/null &&
    python3 tools/sass/sass_model.py "$work"/*.hex --limits tools/sass/sass-limits.txt "$@"
