#!/usr/bin/env bash
# oracles.sh - compares kvreel's methods with the code of other projects, in a virtual environment outside the
# tree.
#
#   tools/peers/oracles.sh                 all comparisons; first makes the environment (about 6 GB, includes torch)
#   tools/peers/oracles.sh --table         also prints rows for README.md
#   tools/peers/oracles.sh --python PY     uses the interpreter PY; prints and skips comparisons whose package it lacks
#   tools/peers/oracles.sh --packages      prints the packages that the environment needs
#
# PEERS_VENV is the environment's folder (default ~/.cache/kvreel/peers). KVREEL is kvreel's path. The exit status
# is 1 if a comparison fails. Without --python, it is also 1 if a comparison's package is missing.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

packages=(numpy safetensors torch gguf==0.19.0 torchao==0.18.0 kvpress==0.5.5 transformers==5.2.0 flashdreams==0.1.0)
bare=(quant-videogen==0.1.0 sglang==0.5.23) # installed without their dependencies (another torch, a server)
venv=${PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/kvreel/peers}
python='' table=()
while [ $# -gt 0 ]; do
    case $1 in
    --table) table=(--table) ;;
    --python) python=$2 && shift ;;
    --packages) echo "${packages[*]}" && exit ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done
bad=0 strict=
if [ -z "$python" ]; then
    strict=1 python=$venv/bin/python
    if [ "$(cat "$venv/made" 2>/dev/null)" != "${packages[*]} ${bare[*]}" ]; then
        python3 -m venv "$venv" && "$python" -m pip install --quiet "${packages[@]}" &&
            "$python" -m pip install --quiet --no-deps "${bare[@]}" &&
            echo "${packages[*]} ${bare[*]}" >"$venv/made" || exit 1
    fi
fi
noise=$(mktemp) # stderr of one script, printed if it fails
trap 'rm -f "$noise"' EXIT
peers=(gguf torchao kvpress flashdreams flashdreams_wan)
[ -z "$strict" ] || peers+=(sglang qvg) # packages of `bare`, which only this script's environment has
for peer in "${peers[@]}"; do
    "$python" "tools/peers/oracle_$peer.py" "${table[@]}" 2>"$noise"
    case $? in
    0) ;;
    77) [ -z "$strict" ] || bad=1 ;;
    *) bad=1 && echo "FAIL - oracle_$peer.py" && tail -5 "$noise" >&2 ;;
    esac
done
exit $bad
