#!/usr/bin/env bash
# A method written in Python is used in a sweep like any other. An error in it fails only its own cells.
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "methods written in Python"
unset KVREEL_LIB
cp examples/python_method.py "$work/mine.py"
cd "$work" || exit 1

exits 0 "show prints the method" show PY_INT4 --plugin mine.py
prints "show prints the option of the method" 'bits.*4.*of a code'
exits 0 "list methods has the method" list methods --plugin mine.py --json
json "the list has its title, and no bits per element" '.[] | select(.name == "PY_INT4") | .bits_per_element == null and (.title | test("written in Python"))'
exits 0 "predict with a Python method" predict -m PY_INT4 --plugin mine.py --geometry wan-1.3b --frames 165 --json
json "its size is known only after a run" '.data_dependent and (.depends | test("known only after a run")) and .nominal_bytes_min == 0'
exits 2 "an option out of bounds" show PY_INT4 --plugin mine.py -O bits=5
exits 2 "different options for keys and values are refused" codec -m PY_INT4 --plugin mine.py --draw 16x2x8 -O k.bits=2
says "the error says that the options must be equal" 'jointly.*equal options'
exits 2 "a correction is refused for a Python method" codec -m PY_INT4+taylor --plugin mine.py --draw 16x2x8

# 64 tokens, 2 heads, 32 channels: 4 bits per element and 16 bits per head and token, for keys and values.
exits 0 "codec with PY_INT4" codec -m PY_INT4 --plugin mine.py --draw 64x2x32 -O tokens_per_frame=16 -O frames_per_chunk=1 --json
json "exactly the returned bytes are counted" '.nominal_bytes == 2 * 64 * 2 * (32 / 2 + 2) and .resident_bytes == .nominal_bytes'
json "the error of the keys is below 0.3" '.k_mse > 0 and .k_mse < 0.3 and .nonfinite_out == 0'
exits 0 "codec with RTN_INT4 in the same format" codec -m RTN_INT4 --draw 64x2x32 -O axis=channels -O group=32 \
    -O tokens_per_frame=16 -O frames_per_chunk=1 --json
json "RTN_INT4 takes the same bytes" '.nominal_bytes == 2 * 64 * 2 * (32 / 2 + 2)'

# If decode raises an exception, every command fails with the exception's message and reports no number.
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
says "the error has the exception" "forgets\.py: decode: line 12: KeyError: 'k'"
exits 4 "plugin check with a decoder that raises" plugin check forgets.py
prints "plugin check prints the exception" "decode: line 12: KeyError: 'k'"
while IFS='|' read -r body message; do
    printf '"""a decoder that fails"""\nimport numpy as np\n\nNAME = "FAILS"\n\n\ndef encode(k, v):\n    return b"x", None\n\n\ndef decode(data, state, shape):\n    %s\n' "$body" >fails.py
    exits 1 "codec with a decoder of '$body'" codec -m FAILS --plugin fails.py --draw 64x2x32 --json
    says "the error has the cause: $body" "fails\.py: decode: $message"
    check "codec prints no number: $body" test ! -s "$out"
done <<'BODIES'
raise RuntimeError("size mismatch at layer 3")|line 12: RuntimeError: size mismatch at layer 3
return np.zeros(3), np.zeros(3)|ValueError: decode returned k of shape .3,., need .64, 2, 32.
return np.zeros(shape) + np.nan, np.zeros(shape)|.*nan in k, token 0
pass|TypeError: decode returned NoneType
BODIES

# --- types that encode may return ---------------------------------------------------------------

# bytes_of NAME: prints the bytes that codec counts for the method, for 2 x 64 x 2 x 32 values.
bytes_of() {
    exits 0 "$form: codec runs" codec -m "$1" --plugin shapes.py --draw 64x2x32 -O layers=3 -O layer=1 -O tokens_per_frame=16 -O frames_per_chunk=2 "${@:2}" --json
    json "$form: the decoded values are right" '.k_mse < 1e-4 and .v_mse < 1e-4 and .nonfinite_out == 0'
    jq .resident_bytes "$out"
}
# encode returns the same F16 numbers as different types: an array, arrays in tuples and dicts, and objects that
# implement only DLPack or only __array__. The state may also contain strings, numbers and empty arrays.
for form in array tuple nested dlpack array_interface scalars; do
    cat >shapes.py <<PY
"""$form"""
import numpy as np

NAME = "SHAPES"


class Speaks:
    """DLPack and nothing else."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **more):
        return self.x.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class Array:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return np.array(self.x, dtype=dtype)


def encode(k, v):
    k, v = k.astype(np.float16), v.astype(np.float16)
    return {
        "array": (np.stack([k, v]), None),
        "tuple": (b"", (k, v)),
        "nested": ((k,), {"v": [v, {"none": None}]}),
        "dlpack": ([Speaks(k), Speaks(v)], None),
        "array_interface": (Array(np.stack([k, v])), None),
        "scalars": (b"ab", {"k": k, "v": v, "n": -300, "f": 0.1, "t": "µ", "b": True, "e": np.zeros((0, 3), np.int8)}),
    }["$form"]


def decode(data, state, shape):
    if "$form" in ("array", "array_interface"):
        assert isinstance(data, bytes) and state == b""
        k, v = np.frombuffer(data, np.float16).reshape(2, *shape)
    elif "$form" == "tuple":
        assert data == b"" and isinstance(state, tuple)
        k, v = state
    elif "$form" == "nested":
        assert state["v"][1] == {"none": None}
        k, v = data[0], state["v"][0]
    elif "$form" == "dlpack":
        assert isinstance(data, list)
        k, v = map(Speaks, data)
    else:
        assert data == b"ab" and (state["n"], state["f"], state["t"], state["b"]) == (-300, 0.1, "µ", True)
        assert state["e"].shape == (0, 3) and state["e"].dtype == np.int8
        k, v = Array(state["k"]), state["v"]
    return k, v
PY
    bytes_of SHAPES >got
    grep -v '^[0-9]' got
    # For each of the two chunks, kvreel also stores the structure of the returned objects: its length and, for each
    # array, the kind, "<f2", the number of dimensions, and each dimension.
    case $form in array | array_interface) want=16384 ;; tuple) want=$((16384 + 2 * (1 + 2 + 2 * 9))) ;;
    nested) want=$((16384 + 2 * (1 + 2 + 9 + 1 + 2 + 2 + 2 + 9 + 2 + 5 + 1))) ;; dlpack) want=$((16384 + 2 * (1 + 2 + 2 * 9))) ;;
    scalars) want=$((16384 + 2 * (2 + 1 + 2 + 2 * (2 + 9) + 2 + 3 + 2 + 9 + 2 + 4 + 2 + 1 + 2 + 8))) ;; esac
    check "$form: every byte is counted: $(tail -n 1 got)" test "$(tail -n 1 got)" = "$want"
done
n_failed=$((n_failed + $(grep -c '^FAIL' got)))
cat >shapes.py <<'PY'
"""what cannot be stored"""
import numpy as np
NAME = "SHAPES"


def encode(k, v):
    return b"", {"x": [object()]}


def decode(data, state, shape):
    return np.zeros(shape), np.zeros(shape)
PY
exits 1 "a state with an unsupported object is refused" codec -m SHAPES --plugin shapes.py --draw 16x2x8
says "the error has the position and type of the object" "a state\['x'\]\[0\] of type object"

if "$python" -c 'import torch' 2>/dev/null; then
    for type in bfloat16 float16 float32; do
        cat >shapes.py <<PY
"""tensors of torch, of which one needs a gradient"""
import torch

NAME = "SHAPES"


def encode(k, v):
    both = torch.stack([torch.from_numpy(k), torch.from_numpy(v)])
    scale = both.abs().amax(-1, keepdim=True).to(torch.$type)
    return (both / scale.float() * 127).round().to(torch.int8), {"scale": torch.nn.Parameter(scale)}


def decode(data, state, shape):
    assert state["scale"].dtype == torch.$type
    both = torch.frombuffer(bytearray(data), dtype=torch.int8).reshape(2, *shape).float() / 127 * state["scale"].float()
    return both[0].to(torch.bfloat16), both[1]
PY
        exits 0 "torch, $type" codec -m SHAPES --plugin shapes.py --draw 64x2x32 --json
        size=$([ $type = float32 ] && echo 4 || echo 2)
        # Bytes of the stored structure: length 1, dict 2, key 6, kind 1, type's name and its length 1 + n, shape 5.
        json "torch, $type: every byte is counted" ".resident_bytes == 8192 + 256 * $size + 16 + ${#type} and .k_mse < 2e-3"
        sed -i -e 's/{"scale": torch.nn.Parameter(scale)}/(scale[0], {"v": scale[1]}, None)/' \
            -e 's/assert state\["scale"\]/k, rest, none = state; assert none is None and k/' \
            -e 's/state\["scale"\].float()/torch.stack([k, rest["v"]]).float()/' shapes.py
        exits 0 "torch, $type, in a tuple and a dict" codec -m SHAPES --plugin shapes.py --draw 64x2x32 --json
        # Bytes of the stored structure: length 1, tuple 2, dict 2, key 2, None 1; per tensor, kind 1, type's name
        # and its length 1 + n, shape 4.
        json "torch, $type, in a tuple and a dict: every byte is counted" ".resident_bytes == 8192 + 256 * $size + 8 + 2 * (6 + ${#type}) and .k_mse < 2e-3"
    done
else
    skip "methods that return tensors of torch" "Python has no torch"
fi

# encode(k, v, ctx): ctx describes the block. The test checks ctx for the blocks of two chunks in layer 1 of 3.
cat >place.py <<'PY'
"""what a method is told of its block"""
import numpy as np

NAME = "PLACE"
OPTIONS = {"bits": (4, 1, 8, "not used")}


def check(c, tokens):
    assert (c.layer, c.n_layers, c.heads) == (1, 3, range(0, 2)), (c.layer, c.n_layers, c.heads)
    assert (c.tokens_per_frame, c.frames_per_chunk, c.chunk, c.frame) == (16, 2, c.frame // 2, c.tokens[0] // 16)
    assert c.positions.shape == (tokens, 3)
    assert c.positions[0].tolist() == [c.frame, 0, 0] and c.positions[-1].tolist() == [c.frame + tokens // 16 - 1, 3, 3]
    assert c.positions[5].tolist() == [c.frame, 1, 1]


def encode(k, v, ctx, bits):
    check(ctx, len(k))
    return np.stack([k, v]).astype(np.float16), {"chunk": ctx.chunk}


def decode(data, state, shape, ctx, bits):
    check(ctx, shape[0])
    assert ctx.chunk == state["chunk"]
    return np.frombuffer(data, np.float16).reshape(2, *shape)
PY
exits 0 "codec with a method that checks ctx" codec -m PLACE --plugin place.py --draw 64x2x32 -O layers=3 -O layer=1 -O tokens_per_frame=16 -O frames_per_chunk=2 --json
json "encode and decode get the right ctx" '.k_mse < 1e-6'

for row in '(4,)' '(float("nan"), 2, 8, "x")' '(4, 2, float("inf"), "x")' '4'; do
    printf 'OPTIONS = {"bits": %s}\ndef encode(k, v, bits): pass\ndef decode(d, s, shape, bits): pass\n' "$row" >row.py
    exits 2 "OPTIONS with bits: $row is refused" codec -m ROW --plugin row.py --draw 64x2x32
    says "the error has the syntax of OPTIONS: $row" "OPTIONS: bits: need \\(default, lowest, highest, 'what it is'\\)"
done

# plugin new writes a method and its test.
exits 0 "plugin new" plugin new mine_too -o made
prints "plugin new prints the files that it wrote" 'made/mine_too.py: the method MINE_TOO'
check "the generated test passes" env KVREEL="$kvreel" "$python" made/test_mine_too.py
exits 2 "plugin new refuses an existing file" plugin new mine_too -o made
says "the error names the existing file" 'made/mine_too.py already exists'
sed -i 's/ + top).astype/ + top + 1).astype/' made/mine_too.py
check "the generated test fails if the method is broken" bash -c "! KVREEL='$kvreel' '$python' made/test_mine_too.py 2>/dev/null"
for name in 3x a-b a/b ''; do exits 2 "plugin new refuses the name '$name'" plugin new "$name"; done
for name in numpy class Random; do
    exits 2 "plugin new refuses the name of a Python module or keyword: $name" plugin new "$name" -o made
    says "the error says that $name hides the module of Python" "${name,,}.py would hide Python's module '${name,,}'"
done
exits 2 "plugin new refuses an existing method" plugin new rtn_int4 -o made
says "the error names the existing method" 'a method RTN_INT4 already exists'
check "refused names write no files" test "$(cd made && echo *.py)" = "mine_too.py test_mine_too.py"

# The simplest method: encode returns k and v as its state. kvreel counts all bytes of k and v, plus the keys of the
# dict.
printf '%s\n' 'NAME = "KEEPS"' 'def encode(k, v): return b"", {"k": k, "v": v}' \
    'def decode(data, state, shape): return state["k"], state["v"]' >keeps.py
exits 0 "codec with a method that stores F32" codec -m KEEPS --plugin keeps.py --draw 64x2x32 --json
json "it is exact, and takes less than 100 bytes more than F32" '.k_mse == 0 and .v_mse == 0 and .nominal_bytes > 32768 and .nominal_bytes < 32868'

# --- a sweep with every kind of error -------------------------------------------------------

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
exits 3 "a sweep with failing methods exits with status 3" "${run[@]}"
check "no other cell fails" test "$(sql t.db "SELECT count(*) FROM cell WHERE outcome <> 'OK' AND method NOT LIKE 'BAD%'")" = 0
outcome() { sql t.db "SELECT outcome || ' ' || coalesce(reason, '') FROM cells_wide WHERE method = 'BAD way=$1' OR ($1 = 0 AND method = 'BAD')"; }
while read -r at way said; do
    check "$way: $said" grep -qE "^$said" <(outcome "$at")
done <<'WAYS'
0 raises ERROR .*bad\.py: encode: line [0-9]+: ValueError: no codes for you
1 crashes ERROR .*bad\.py: encode: the Python process was killed by signal 11
2 exits ERROR .*encode: the Python process exited with status 3 before it answered
4 memory OOM_HOST .*encode: .*MemoryError
5 untyped ERROR .*encode returned bytes of type set
6 single ERROR .*encode returned ndarray; need \(bytes, state\)
7 huge ERROR .*encode: the Python method returned [0-9]+ bytes of data and 0 bytes of state; together at most [0-9]+ bytes are allowed
8 forges ERROR .*encode:
9 hides ERROR .*decode: .*AttributeError
10 nan NAN .*decode.. returned -?nan in v, token 0, channel 3
11 short ERROR .*decode returned k of shape
12 chatters OK
WAYS
one() { sql t.db "SELECT $2 FROM summary WHERE method = '$1'"; }
check "the summary has RTN_INT4 and PY_INT4" test -n "$(one RTN_INT4 psnr_db)" -a -n "$(one PY_INT4 psnr_db)"
# Each element takes exactly 4 + 16 / head_dim bits.
check "the compression of PY_INT4 is that of its returned bytes" awk -v c="$(one PY_INT4 compression)" -v d="$(jq '.dim / .num_heads' "$root/models/nano/config.json")" \
    'BEGIN { want = 16 / (4 + 16 / d); exit !(d > 0 && c > want - 1e-6 && c < want + 1e-6) }'
check "another option value has its own row" test -n "$(one 'PY_INT4 bits=3' psnr_db)"
check "both cells of PY_INT4 are OK" test "$(sql t.db "SELECT count(*) FROM cell WHERE method LIKE 'PY_INT4%' AND outcome = 'OK'")" -eq 2

sed 's/^plugins:.*/plugins: [mine.py, bad.py]/; s/^methods:.*/methods: [PY_INT4, {method: BAD, options: {way: [3]}}]/' sweep.yaml >small.yaml
small=(run small.yaml --db t.db -o o --json -q)
exits 3 "a method that hangs fails its cell after --timeout 8" "${small[@]}" --timeout 8
json "finished cells are skipped" '.skipped == 2 and .failed == 1'
check "the outcome of the hanging cell is TIMEOUT" grep -q '^TIMEOUT' <(outcome 3)
echo '# another file' >>mine.py
exits 0 "the sweep after the Python file changed" run small.yaml --db t.db -o o --json -q --filter name=PY_INT4
json "the changed file gives another cell" '.ok == 1'

exits 2 "a Python file that raises on import is refused" list methods --plugin unreadable.py
says "the error has the file, line and exception" 'unreadable\.py: line [0-9]+: RuntimeError: not today'
exits 2 "a method name with a blank is refused" list methods --plugin nameless.py
says "the error has the name" 'two words'
cp mine.py twin.py
exits 2 "two files with one method name are refused" list methods --plugin mine.py --plugin twin.py
says "the error names the method" "'PY_INT4' is already loaded"
KVREEL_PYTHON=$work/none "$kvreel" list methods --plugin mine.py >"$out" 2>"$err"
check "a missing Python interpreter is an error" test $? -ne 0
says "the error names KVREEL_PYTHON" 'cannot start.*KVREEL_PYTHON'
exits 2 "a Python method on a device is refused" codec -m PY_INT4 --plugin mine.py --draw 16x2x8 --device emulated
says "the error says that the method runs only on the CPU" 'runs only on device cpu|emulated'
