#!/usr/bin/env bash
# What is under version control in results/golden is what this program measures, on any CPU; and
# the comparison finds changes that are real.
# long: every method, and rollouts of many draws.
. tests/cli/lib.sh || exit 1

check "codes, figures under a teacher and free rollouts are what they were" \
    bash tools/measure/golden.sh "$kvreel"

# finds NAME PATTERN ARGS...: the comparison fails, for this reason.
finds() {
    local name=$1 pattern=$2
    shift 2
    if bash tools/measure/golden.sh "$kvreel" "$@" >"$out" 2>&1; then
        fail "$name"
    else
        check "$name" grep -qE "$pattern" "$out"
    fi
}

# Groups of tokens are multiples of 8: one more than 16 is 24.
finds "another group: other codes" 'codes: RTN_INT2: stored_sha256' \
    --part codes --method RTN_INT2 -- -O group=24
off=$(dirname "$kvreel")/tests/plugins/off_step.so
if [ ! -e "$off" ]; then
    fail "$off is not built: make plugin-example"
    exit 1
fi
finds "a step off by one part in 256 where it is written: other codes" \
    'codes: RTN_INT2: stored_sha256' \
    --part codes --method RTN_INT2 --as OFF_WRITTEN_INT2 -- --plugin "$off"
# Where it is read no byte is another: that is for the figures.
check "a step off where it is read: the same codes" bash tools/measure/golden.sh "$kvreel" \
    --part codes --method RTN_INT2 --as OFF_READ_INT2 -- --plugin "$off"
for where in WRITTEN READ; do
    finds "a step off by one part in 256: another error ($where)" 'forced: RTN_INT2: latent_error' \
        --part forced --method RTN_INT2 --as "OFF_${where}_INT2" -- --plugin "$off"
done

# Every kind of number can fail: damaged where it is kept, measured as ever.
mkdir -p "$work/results/golden"
ln -s "$root/configs" "$root/models" "$work/"
cd "$work" || exit 1
tool=$root/tools/measure/golden.sh
sed 's/^RTN_INT2,\([0-9]*\)/RTN_INT2,1\1/' "$root/results/golden/codes.csv" >results/golden/codes.csv
sed 's/^RTN_INT2,./RTN_INT2,x/' "$root/results/golden/forced.csv" >results/golden/forced.csv
sed 's/^RTN_INT2,0,.*/RTN_INT2,0,99/' "$root/results/golden/free.csv" >results/golden/free.csv
damaged() { # NAME PART PATTERN
    if bash "$tool" "$kvreel" --part "$2" --method RTN_INT2 >"$out" 2>&1; then
        fail "$1"
    else
        check "$1" grep -qE "$3" "$out"
    fi
}
damaged "a byte count" codes 'codes: RTN_INT2: nominal_bytes'
damaged "a key" forced 'forced: RTN_INT2: key'
damaged "a rollout that ends elsewhere" free 'free: RTN_INT2: psnr_db 99, the draws say'
