#!/usr/bin/env bash
# reproducible.sh - checks that the same sources always give the same program.
#
#     tools/release/reproducible.sh FOLDER [TARGET ...]
#
# The script builds two copies of the checked-out commit without a compiler cache. Their folders' names differ
# in length, and the numbers of jobs differ. Each TARGET (default build/kvreel) must be equal in both, byte
# for byte.
set -euo pipefail

folder=$(realpath -m "$1")
shift
targets=("${@:-build/kvreel}")
export CCACHE_DISABLE=1
commit=$(git rev-parse HEAD) # stored, since a new commit may be made before the second copy
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
