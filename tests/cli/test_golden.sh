#!/usr/bin/env bash
# The golden sweep: bytes and fidelity of a method of every kind are what they were.
. tests/cli/lib.sh || exit 1

check "the golden sweep is what it was" bash tools/golden.sh "$kvreel"

# The comparison can fail: a damaged digit must show.
mkdir -p "$work/results/golden"
sed 's/^RTN_INT2,\([0-9]*\)/RTN_INT2,1\1/' results/golden/golden.csv >"$work/results/golden/golden.csv"
ln -s "$root/configs" "$root/models" "$work/"
if (cd "$work" && bash "$root/tools/golden.sh" "$kvreel" >"$out" 2>&1); then
    fail "a damaged byte count is seen"
else
    check "a damaged byte count is seen" grep -q 'RTN_INT2: nominal bytes' "$out"
fi
