#!/usr/bin/env bash
# plugin check: a plug-in that keeps the contract passes, and each broken rule is found and named.
. tests/cli/lib.sh || exit 1
abi=$(sed -n 's/.*KVR_PLUGIN_ABI = \([0-9]*\).*/\1/p' methods/plugin.h)
build=$(realpath "$(dirname "$kvreel")")
plugins=$build/tests/plugins
cd "$work" || exit 1

exits 0 "the example" plugin check "$build/examples/plugin/center.so" --json
json "keeps to all of it" '.failed == 0 and .ok >= 8 and (.checks | map(select(.method == "CENTERED_INT4")) | length == 10)'
json "bytes are told" '.checks[] | select(.check == "bytes") | .said | test("^[0-9]+ bytes, [0-9.]+x smaller")'
if "$kvreel" version | grep -q 'kernels *emulated'; then
    json "on an emulated device, too" '.checks[] | select(.check == "device") | .verdict == "ok"'
    exits 4 "a device of another build" plugin check "$build/examples/plugin/center.so" --device cuda
    prints "fails with its reason" 'device +FAILED +.*cuda'
fi
exits 0 "in words" plugin check "$build/examples/plugin/center.so"
prints "every check has a line" '^CENTERED_INT4 +no memory +ok +[0-9]+ allocations'
prints "and there is a sum" '^center 1\.0: (9|10) checks passed, 0 failed, [01] not applicable$'

broken() { # METHOD CHECK PATTERN: only this check fails, with this message
    exits 4 "$1" plugin check "$plugins/broken.so" -m "$1" --timeout "${4:-300}" --json
    json "$1: $2 is broken" --arg c "$2" --arg p "$3" \
        '[.checks[] | select(.verdict == "FAILED")] | length == 1 and .[0].check == $c and (.[0].said | test($p))'
}
exits 0 "a stage that breaks nothing" plugin check "$plugins/broken.so" -m WHOLE_F16 --json
json "is found to break nothing" '.failed == 0 and .ok >= 9'
broken BREAKS_BYTES bytes "after chunk 0: the cache's buffers have [0-9]+ bytes, the codec declares [0-9]+"
exits 4 "what drifts from call to call" plugin check "$plugins/broken.so" -m BREAKS_AGAIN --json
json "is not the same again" 'any(.checks[]; .check == "again" and (.said | test("the stored bytes differ")))
    and (.checks[] | select(.check == "round trip") | .verdict == "ok")'
broken BREAKS_PARTS parts 'gives other values than decoding all tokens'
broken BREAKS_ZEROS hostile 'crashed: SIGABRT'
broken BREAKS_NAN hostile 'an input of nan in the keys decodes to the finite 0'
broken BREAKS_MEMORY 'no memory' 'the method reported [A-Z]+ instead of ENOMEM: what is a failed allocation'
broken BREAKS_TIME hostile 'not finished after 2 s' 2
exits 4 "a NaN out of nothing" plugin check "$plugins/poison.so" --json
json "is found where it is read" 'any(.checks[]; .check == "round trip" and (.said | test("value of token 0, channel 0 decodes to nan")))'
broken REMEMBERS_F16 'other input' 'the same input is stored as different bytes if another input was stored before it'
exits 4 "what writes to its input" plugin check "$plugins/broken.so" -m BREAKS_INPUT --json
json "is found out" 'any(.checks[]; .check == "input" and (.said | test("the codec modified its input at token 0, channel 0")))'
exits 0 "a method beside a stage that it has not" plugin check "$plugins/memo.so" --json
json "names the stage" 'any(.checks[]; .check == "memo" and .verdict == "does not apply" and .method == "")'

exits 2 "a file that is refused" plugin check "$plugins/other_abi.so"
says "with the loader's reason" "built for ABI $((abi - 1))"
exits 2 "a method it has not" plugin check "$plugins/broken.so" -m RTN_INT4
says "says so" 'broken has no method RTN_INT4'
exits 2 "another word" plugin test "$plugins/broken.so"
says "says what there is" 'need new or check'
exits 2 "no file" plugin check
if python_has numpy "a method in Python"; then
    export KVREEL_PYTHON=$python
    cat >half.py <<'PY'
"""The upper halves of F32 numbers"""
import numpy as np

NAME = "CUT_BF16"


def encode(k, v):
    return (np.stack([k, v]).view(np.uint32) >> 16).astype(np.uint16), None


def decode(data, state, shape):
    upper = np.frombuffer(data, np.uint16).reshape(2, *shape).astype(np.uint32)
    return tuple((upper << 16).view(np.float32))
PY
    exits 0 "a method in Python" plugin check half.py --json
    json "keeps to all of it" '.failed == 0 and .ok >= 8 and .name != ""'
fi
