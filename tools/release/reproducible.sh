#!/usr/bin/env bash
# reproducible.sh - is a program made of its sources alone?
#
#     tools/release/reproducible.sh FOLDER [TARGET ...]
#
# Two copies of the checked out commit, in folders whose names have different lengths, are built with
# no cache and another number of jobs each; TARGETs (build/kvreel) must be the same, byte for byte.
set -euo pipefail

folder=$(realpath -m "$1")
shift
targets=("${@:-build/kvreel}")
export CCACHE_DISABLE=1
commit=$(git rev-parse HEAD) # once: there may be another one when the second copy is made
jobs=1
for side in "$folder/one" "$folder/another-place/two"; do
    rm -rf "$side"
    mkdir -p "$side"
    git archive "$commit" | tar xf - -C "$side"
    echo "$commit" >"$side/COMMIT"
    jobs=$((jobs + 1))
    make -s -j"$jobs" -C "$side" "${targets[@]}" MAKEFLAGS= >/dev/null
done
for t in "${targets[@]}"; do
    if cmp "$folder/one/$t" "$folder/another-place/two/$t"; then
        echo "reproducible: $t: $(sha256sum <"$folder/one/$t" | cut -c 1-16), twice"
    else
        echo "reproducible: $t differs: look with objdump -s or diffoscope" >&2
        exit 1
    fi
done
rm -rf "$folder"
