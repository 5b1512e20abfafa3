#!/usr/bin/env bash
# kvreel reproduces results/golden on any CPU, and tools/measure/golden.sh fails if a committed number changes.
# long: runs every method, and rollouts with many reruns.
. tests/cli/lib.sh || exit 1

check "golden.sh reproduces codes, errors of forced rollouts, and free rollouts" \
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
finds "golden.sh finds other codes for another group size" 'codes: RTN_INT2: stored_sha256' \
    --part codes --method RTN_INT2 -- -O group=24
off=$(dirname "$kvreel")/tests/plugins/off_step.so
if [ ! -e "$off" ]; then
    fail "$off is not built: make plugin-example"
    exit 1
fi
finds "golden.sh finds other codes if the step of the encoder is off by 1/256" \
    'codes: RTN_INT2: stored_sha256' \
    --part codes --method RTN_INT2 --as OFF_WRITTEN_INT2 -- --plugin "$off"
# A wrong quantization step in the decoder changes no stored byte, so golden.sh --part codes cannot find it. --part
# forced, below, does.
check "golden.sh finds equal codes if only the step of the decoder is off" bash tools/measure/golden.sh "$kvreel" \
    --part codes --method RTN_INT2 --as OFF_READ_INT2 -- --plugin "$off"
for where in WRITTEN READ; do
    finds "golden.sh finds another latent error ($where step off by 1/256)" 'forced: RTN_INT2: latent_error' \
        --part forced --method RTN_INT2 --as "OFF_${where}_INT2" -- --plugin "$off"
done

# golden.sh must fail for each kind of number: one committed value in each of codes.csv, forced.csv and free.csv is
# changed.
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
damaged "golden.sh finds a changed byte count" codes 'codes: RTN_INT2: nominal_bytes'
damaged "golden.sh finds a changed key" forced 'forced: RTN_INT2: key'
damaged "golden.sh finds a changed PSNR of a free rollout" free 'free: RTN_INT2: psnr_db 99, the draws say'
