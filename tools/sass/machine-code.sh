# shellcheck shell=bash
# machine-code.sh - sourced by sass.sh and sass-streams.sh: the tools they need, a folder, and a compiler.
#
# Sets `work`, a folder that is removed at exit. Where a tool is missing, it is named and the exit status is 77.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=$(bash tools/sass/nvdisasm.sh 2>/dev/null) || nvdisasm=nvdisasm
for tool in "$nvcc" "$nvdisasm" python3; do
    command -v "$tool" >/dev/null || { echo "$(basename "$0" .sh): skipped, there is no $tool" >&2; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes the disassembly of a kernel file to $work/NAME.hex.
machine_code() { # FILE.cu ARCH
    local name
    name=$work/$(basename "$1" .cu)
    "$nvcc" -I. -std=c++17 -O3 -fmad=false "-arch=$2" -cubin -o "$name.cubin" "$1" &&
        "$nvdisasm" -hex "$name.cubin" >"$name.hex"
}
