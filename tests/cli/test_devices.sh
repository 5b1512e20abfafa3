#!/usr/bin/env bash
# check-devices.sh rejects code that branches on the device instead of using its table of functions.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

says_of() { bash "$root/tools/lint/check-devices.sh" "$1" >"$out" 2>&1; }

check "no code branches on the device" says_of "$root"
cat "$out"

mkdir "$work/tree"
cp -r "$root/harness" "$root/methods" "$root/metrics" "$work/tree/"
planted() { # what-is-found line
    echo "$2" >>"$work/tree/harness/cache/layer.c"
    if says_of "$work/tree"; then fail "$1: passed"; fi
    check "$1" grep -q 'harness/cache/layer.c:[0-9]*:' "$out"
    cp "$root/harness/cache/layer.c" "$work/tree/harness/cache/"
}

planted "a comparison with a backend is found" 'if (kvr_dev_backend(dev) == KVR_CUDA)'
planted "a comparison with the constant on the left is found" '    if (KVR_CPU != backend)'
planted "a case of a switch is found" '    case KVR_CUDA:'
planted "a stream as a condition is found" '    if (kvr_dev_stream(dev))'
planted "a stream inside a larger condition is found" '    return ready && !kvr_dev_stream(l->dev);'
planted "a stream in a conditional expression is found" '    f = kvr_dev_stream(dev) ? a : b;'
planted "a call of on_cuda() is found" '    if (on_cuda(dev))'
check "a table of functions is accepted" says_of "$work/tree"
