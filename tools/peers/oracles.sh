#!/usr/bin/env bash
# oracles.sh - kvreel's rows beside peers' own code, in a virtual environment outside of the repository.
#
#   tools/peers/oracles.sh                 all; makes the environment first (about 6 GB, torch with it)
#   tools/peers/oracles.sh --table         rows for README.md as well
#   tools/peers/oracles.sh --python PY     with the packages that PY has; what is missing is named and left out
#   tools/peers/oracles.sh --packages      what it installs, in pip's words
#
# From the environment: PEERS_VENV, where the virtual environment is (~/.cache/kvreel/peers); KVREEL, the binary.
# Ends with 1 when one disagrees, and without --python also when one could not run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

packages=(numpy safetensors torch gguf==0.19.0 torchao==0.18.0 kvpress==0.5.5 transformers==5.2.0 flashdreams==0.1.0)
bare=(quant-videogen==0.1.0 sglang==0.5.23) # they ask for another torch, and for a server's packages
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
noise=$(mktemp) # what the peers' packages warn of, shown when a script fails
trap 'rm -f "$noise"' EXIT
peers=(gguf torchao kvpress flashdreams flashdreams_wan)
[ -z "$strict" ] || peers+=(sglang qvg) # of `bare`, which only this script's own environment has
for peer in "${peers[@]}"; do
    "$python" "tools/peers/oracle_$peer.py" "${table[@]}" 2>"$noise"
    case $? in
    0) ;;
    77) [ -z "$strict" ] || bad=1 ;;
    *) bad=1 && echo "FAIL - oracle_$peer.py" && tail -5 "$noise" >&2 ;;
    esac
done
exit $bad
