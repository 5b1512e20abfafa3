# shellcheck shell=bash
# machine-code.sh - sourced by sass.sh and sass-streams.sh: finds the tools and defines the function
# machine_code.
#
# The script sets `work` to a temporary folder, which it removes at exit. If a tool is missing, the script prints
# the tool's name and exits with status 77.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=$(bash tools/sass/nvdisasm.sh 2>/dev/null) || nvdisasm=nvdisasm
for tool in "$nvcc" "$nvdisasm" python3; do
    command -v "$tool" >/dev/null || { echo "$(basename "$0" .sh): skipped, there is no $tool" >&2; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Compiles a kernel file and writes its disassembly to $work/NAME.hex.
machine_code() { # FILE.cu ARCH
    local name
    name=$work/$(basename "$1" .cu)
    "$nvcc" -I. -std=c++17 -O3 -fmad=false "-arch=$2" -cubin -o "$name.cubin" "$1" &&
        "$nvdisasm" -hex "$name.cubin" >"$name.hex"
}
