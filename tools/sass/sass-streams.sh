#!/usr/bin/env bash
# sass-streams.sh - checks the machine code of codecs and of the forward's passes against
# tools/sass/sass-streams.txt: code that fits the instruction cache, no spills, and for the kernels named
# there the modelled rate beside a copy (sass_stream.py).
#
#     tools/sass/sass-streams.sh [--markdown]
#
# Needs what tools/sass/sass.sh needs. What is missing is named, and the exit status is 77.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=$(bash tools/sass/nvdisasm.sh 2>/dev/null) || nvdisasm=nvdisasm
for tool in "$nvcc" "$nvdisasm" python3; do
    command -v "$tool" >/dev/null || { echo "sass-streams: skipped, there is no $tool" >&2; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in methods/*/*.cu methods/codecs/*/*.cu harness/engine/*.cu; do
    name=$work/$(basename "$source" .cu)
    "$nvcc" -I. -std=c++17 -O3 -fmad=false -arch=sm_90 -cubin -o "$name.cubin" "$source" &&
        "$nvdisasm" -hex "$name.cubin" >"$name.hex" || exit 1
done
python3 tools/sass/sass_stream.py "$work"/*.hex --limits tools/sass/sass-streams.txt "$@"
