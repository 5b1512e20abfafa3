#!/usr/bin/env bash
# A method written in Python is a row of a sweep like any other; one that goes wrong fails its own cells.
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "methods written in Python"
unset KVREEL_LIB
cp examples/python_method.py "$work/mine.py"
cd "$work" || exit 1

exits 0 "it is shown" show PY_INT4 --plugin mine.py
prints "with its option" 'bits.*4.*of a code'
exits 0 "it is listed" list methods --plugin mine.py --json
json "with its title, bits not known" '.[] | select(.name == "PY_INT4") | .bits_per_element == null and (.title | test("written in Python"))'
exits 0 "predicted" predict -m PY_INT4 --plugin mine.py --geometry wan-1.3b --frames 165 --json
json "as far as can be" '.data_dependent and (.depends | test("when it has run")) and .nominal_bytes_min == 0'
exits 2 "an option out of bounds" show PY_INT4 --plugin mine.py -O bits=5
exits 2 "keys and values with other options" codec -m PY_INT4 --plugin mine.py --draw 16x2x8 -O k.bits=2
says "are refused" 'as one.*same options'
exits 2 "a correction of an error nobody knows" codec -m PY_INT4+taylor --plugin mine.py --draw 16x2x8

# 64 tokens of 2 heads of 32: 4 bits an element and 16 for each head of a token, of keys and of values.
exits 0 "codec" codec -m PY_INT4 --plugin mine.py --draw 64x2x32 -O tokens_per_frame=16 -O frames_per_chunk=1 --json
json "every byte it returned is counted, and no other" '.nominal_bytes == 2 * 64 * 2 * (32 / 2 + 2) and .resident_bytes == .nominal_bytes'
json "and it codes" '.k_mse > 0 and .k_mse < 0.3 and .nonfinite_out == 0'
exits 0 "the same method in other words" codec -m RTN_INT4 --draw 64x2x32 -O axis=channels -O group=32 \
    -O tokens_per_frame=16 -O frames_per_chunk=1 --json
json "takes the same bytes in C" '.nominal_bytes == 2 * 64 * 2 * (32 / 2 + 2)'

# A decoder that raises is a failure with its own words wherever it is asked, not a number.
cat >forgets.py <<'PY'
"""decode finds nothing of what encode kept: it runs in another process"""
NAME = "FORGETS"
KEPT = {}


def encode(k, v):
    KEPT["k"], KEPT["v"] = k.copy(), v.copy()
    return b"x", None


def decode(data, state, shape):
    return KEPT["k"], KEPT["v"]
PY
exits 1 "codec with a decoder that raises" codec -m FORGETS --plugin forgets.py --draw 64x2x32 -O tokens_per_frame=64 -O frames_per_chunk=1
says "says what it raised" "forgets\.py: decode: line 12: KeyError: 'k'"
exits 4 "plugin check" plugin check forgets.py
prints "does, too" "decode: line 12: KeyError: 'k'"

# --- a sweep, with every way to go wrong in it ----------------------------------------------

for name in bad unreadable nameless; do cp "$root/tests/python/hostile/method.py" "$name.py"; done
cat >sweep.yaml <<'YAML'
question: what becomes of a sweep with methods from elsewhere?
model: nano
prompts:
  - {id: red, text: a large red disc drifts right over a plain blue background}
plugins: [mine.py, bad.py]
methods: [RTN_INT4, PY_INT4, {method: PY_INT4, options: {bits: [3]}}, {method: BAD, options: {way: [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]}}]
frames: 6
YAML
run=(run sweep.yaml --db t.db -o o --json -q)
exits 3 "a sweep with bad methods in it ends" "${run[@]}"
check "no other cell fails" test "$(sql t.db "SELECT count(*) FROM cell WHERE outcome <> 'OK' AND method NOT LIKE 'BAD%'")" = 0
outcome() { sql t.db "SELECT outcome || ' ' || coalesce(reason, '') FROM cells_wide WHERE method = 'BAD way=$1' OR ($1 = 0 AND method = 'BAD')"; }
while read -r at way said; do
    check "$way: $said" grep -qE "^$said" <(outcome "$at")
done <<'WAYS'
0 raises ERROR .*bad\.py: encode: line [0-9]+: ValueError: no codes for you
1 crashes ERROR .*bad\.py: encode: its process was ended by signal 11
2 exits ERROR .*encode: its process ended by itself, with code 3
4 memory OOM_HOST .*encode: .*MemoryError
5 untyped ERROR .*encode returned bytes of type list
6 single ERROR .*encode returned ndarray; need \(bytes, state\)
7 huge ERROR .*encode: answers [0-9]+ bytes, need at most
8 forges ERROR .*encode:
9 hides ERROR .*decode: .*AttributeError
10 nan NAN .*decode returned -?nan in v, token 0, channel 3
11 short ERROR .*decode returned k of shape
12 chatters OK
WAYS
one() { sql t.db "SELECT $2 FROM summary WHERE method = '$1'"; }
check "it stands beside RTN_INT4" test -n "$(one RTN_INT4 psnr_db)" -a -n "$(one PY_INT4 psnr_db)"
# 4 + 16 / head_dim bits an element, to the byte.
check "with the bytes it returned" awk -v c="$(one PY_INT4 compression)" -v d="$(jq '.dim / .num_heads' "$root/models/nano/config.json")" \
    'BEGIN { want = 16 / (4 + 16 / d); exit !(d > 0 && c > want - 1e-6 && c < want + 1e-6) }'
check "an option of its own is another row" test -n "$(one 'PY_INT4 bits=3' psnr_db)"
check "its time is the clock's" test "$(sql t.db "SELECT count(*) FROM cell WHERE method LIKE 'PY_INT4%' AND outcome = 'OK'")" -eq 2

sed 's/^plugins:.*/plugins: [mine.py, bad.py]/; s/^methods:.*/methods: [PY_INT4, {method: BAD, options: {way: [3]}}]/' sweep.yaml >small.yaml
small=(run small.yaml --db t.db -o o --json -q)
exits 3 "one that hangs" "${small[@]}" --timeout 8
json "what was measured stays" '.skipped == 2 and .failed == 1'
check "it is a row of its own kind" grep -q '^TIMEOUT' <(outcome 3)
echo '# another file' >>mine.py
exits 0 "another version of the file" run small.yaml --db t.db -o o --json -q --filter name=PY_INT4
json "is another cell" '.ok == 1'

exits 2 "a file that cannot be read" list methods --plugin unreadable.py
says "says where and why" 'unreadable\.py: line [0-9]+: RuntimeError: not today'
exits 2 "a name with a blank" list methods --plugin nameless.py
says "is refused" 'two words'
cp mine.py twin.py
exits 2 "two files of one name" list methods --plugin mine.py --plugin twin.py
says "are one too many" "'PY_INT4' is loaded already"
KVREEL_PYTHON=$work/none "$kvreel" list methods --plugin mine.py >"$out" 2>"$err"
check "no interpreter" test $? -ne 0
says "is said" 'cannot start.*KVREEL_PYTHON'
exits 2 "on a device" codec -m PY_INT4 --plugin mine.py --draw 16x2x8 --device emulated
says "it is refused" 'runs on the CPU|emulated'
