#!/usr/bin/env bash
# On any CPU, kvreel reproduces results/golden, and tools/measure/golden.sh reports real changes.
# long: every method, and rollouts of many draws.
. tests/cli/lib.sh || exit 1

check "codes, figures under a teacher and free rollouts are what they were" \
    bash tools/measure/golden.sh "$kvreel"

# finds NAME PATTERN ARGS...: passes if the comparison fails with a message that matches PATTERN.
finds() {
    local name=$1 pattern=$2
    shift 2
    if bash tools/measure/golden.sh "$kvreel" "$@" >"$out" 2>&1; then
        fail "$name"
    else
        check "$name" grep -qE "$pattern" "$out"
    fi
}

# A token group's size is a multiple of 8, so the next size after 16 is 24.
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
# A wrong step in the decoder changes no stored byte; the part `forced` detects it below.
check "a step off where it is read: the same codes" bash tools/measure/golden.sh "$kvreel" \
    --part codes --method RTN_INT2 --as OFF_READ_INT2 -- --plugin "$off"
for where in WRITTEN READ; do
    finds "a step off by one part in 256: another error ($where)" 'forced: RTN_INT2: latent_error' \
        --part forced --method RTN_INT2 --as "OFF_${where}_INT2" -- --plugin "$off"
done

# The comparison fails for a wrong number of each kind: one committed value of each part is changed here.
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
