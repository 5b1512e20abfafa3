#!/usr/bin/env bash
# nvdisasm.sh - prints the path of NVIDIA's disassembler.
#
#     tools/sass/nvdisasm.sh [--install]
#
# The order of preference is NVDISASM, PATH, the folder of nvcc (CUDA Toolkit), and the Python package
# nvidia-cuda-nvdisasm, which --install puts into ${XDG_CACHE_HOME:-~/.cache}/kvreel/nvdisasm. Exit status 77
# means that there is no disassembler.
set -uo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/kvreel/nvdisasm
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}

found() {
    for f in "${NVDISASM-}" "$(command -v nvdisasm)" "$(dirname "$nvcc")/nvdisasm" "$folder"/nvidia/*/bin/nvdisasm; do
        [ -n "$f" ] && [ -x "$f" ] && { echo "$f"; return; }
    done
    return 1
}
found && exit
if [ "${1-}" = --install ]; then
    pip=(python3 -m pip)
    "${pip[@]}" --version >/dev/null 2>&1 || pip=("$(bash "$(dirname "$0")/../test/test-python.sh")" -m pip)
    "${pip[@]}" install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$folder" nvidia-cuda-nvdisasm >&2 && found && exit
fi
echo "nvdisasm.sh: no nvdisasm: tools/deps.sh --lint installs it where there is nvcc" >&2
exit 77
