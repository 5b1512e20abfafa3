#!/usr/bin/env bash
# plugin check accepts a plug-in that obeys the contract, and names each rule that a plug-in breaks.
. tests/cli/lib.sh || exit 1
abi=$(sed -n 's/.*KVR_PLUGIN_ABI = \([0-9]*\).*/\1/p' methods/plugin.h)
build=$(realpath "$(dirname "$kvreel")")
plugins=$build/tests/plugins
cd "$work" || exit 1

exits 0 "plugin check of the example plug-in" plugin check "$build/examples/plugin/center.so" --json
json "the example passes all checks" '.failed == 0 and .ok >= 8 and (.checks | map(select(.method == "CENTERED_INT4")) | length == 10)'
json "check bytes reports size and compression" '.checks[] | select(.check == "bytes") | .said | test("^[0-9]+ bytes, [0-9.]+x smaller")'
if "$kvreel" version | grep -q 'kernels *emulated'; then
    json "the example passes check device on an emulated device" '.checks[] | select(.check == "device") | .verdict == "ok"'
    exits 4 "plugin check --device cuda fails in a build without CUDA" plugin check "$build/examples/plugin/center.so" --device cuda
    prints "check device prints the reason" 'device +FAILED +.*cuda'
fi
exits 0 "plugin check prints text" plugin check "$build/examples/plugin/center.so"
prints "every check has a line" '^CENTERED_INT4 +no memory +ok +[0-9]+ allocations'
prints "the last line counts the checks" '^center 1\.0: (9|10) checks passed, 0 failed, [01] not applicable$'

broken() { # METHOD CHECK PATTERN: only this check fails, with this message
    exits 4 "$1" plugin check "$plugins/broken.so" -m "$1" --timeout "${4:-300}" --json
    json "$1: only check $2 fails" --arg c "$2" --arg p "$3" \
        '[.checks[] | select(.verdict == "FAILED")] | length == 1 and .[0].check == $c and (.[0].said | test($p))'
}
exits 0 "plugin check of a stage that breaks no rule" plugin check "$plugins/broken.so" -m WHOLE_F16 --json
json "the stage that breaks no rule passes all checks" '.failed == 0 and .ok >= 9'
broken BREAKS_BYTES bytes "after chunk 0: the cache's buffers have [0-9]+ bytes, the codec declares [0-9]+"
exits 4 "plugin check of a stage whose output changes between calls" plugin check "$plugins/broken.so" -m BREAKS_AGAIN --json
json "check again finds different stored bytes" 'any(.checks[]; .check == "again" and (.said | test("the stored bytes differ")))
    and (.checks[] | select(.check == "round trip") | .verdict == "ok")'
broken BREAKS_PARTS parts 'gives other values than decoding all tokens'
broken BREAKS_ZEROS hostile 'crashed: SIGABRT'
broken BREAKS_NAN hostile 'an input of nan in the keys decodes to the finite 0'
broken BREAKS_MEMORY 'no memory' 'the method reported [A-Z]+ instead of ENOMEM: what is a failed allocation'
broken BREAKS_TIME hostile 'not finished after 2 s' 2
exits 4 "plugin check of a stage that decodes to NaN" plugin check "$plugins/poison.so" --json
json "check round trip finds the NaN" 'any(.checks[]; .check == "round trip" and (.said | test("value of token 0, channel 0 decodes to nan")))'
broken REMEMBERS_F16 'other input' 'the same input is stored as different bytes if another input was stored before it'
exits 4 "plugin check of a stage that modifies its input" plugin check "$plugins/broken.so" -m BREAKS_INPUT --json
json "check input finds the modified input" 'any(.checks[]; .check == "input" and (.said | test("the codec modified its input at token 0, channel 0")))'
exits 0 "plugin check of a plug-in with a stage that its method does not use" plugin check "$plugins/memo.so" --json
json "the unused stage is listed as not applicable" 'any(.checks[]; .check == "memo" and .verdict == "does not apply" and .method == "")'

exits 2 "plugin check refuses a plug-in of another ABI" plugin check "$plugins/other_abi.so"
says "the error has the ABI of the plug-in" "built for ABI $((abi - 1))"
exits 2 "plugin check refuses an unknown method" plugin check "$plugins/broken.so" -m RTN_INT4
says "the error names the unknown method" 'broken has no method RTN_INT4'
exits 2 "plugin refuses an unknown subcommand" plugin test "$plugins/broken.so"
says "the error lists the subcommands" 'need new or check'
exits 2 "plugin check needs a file" plugin check
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
    exits 0 "plugin check of a Python method" plugin check half.py --json
    json "the Python method passes all checks" '.failed == 0 and .ok >= 8 and .name != ""'
fi
