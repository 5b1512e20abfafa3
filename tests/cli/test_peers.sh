#!/usr/bin/env bash
# tools/peers: a comparison with another program is not timed if its result disagrees with kvreel's.
. tests/cli/lib.sh || exit 1

export PYTHONDONTWRITEBYTECODE=1
check "every script compiles" "$python" - <<'PY'
import glob
for path in glob.glob("tools/peers/*.py"):
    compile(open(path).read(), path, "exec")
PY
check "kvreel codec returns the tensors that it gets" "$python" - "$kvreel" "$work" <<'PY'
import struct, subprocess, sys
sys.path.insert(0, "tools/peers")
import common
kvreel, work = sys.argv[1:]
raw = {n: struct.pack("<256f", *((i % 7 - 3) * s for i in range(256))) for n, s in (("k", 1), ("v", 0.5))}
common.write_safetensors(work + "/in", {n: ("F32", (2, 2, 64), x) for n, x in raw.items()})
subprocess.run([kvreel, "codec", "-m", "BF16", "-i", work + "/in", "-o", work + "/out"], check=True)
back = common.read_safetensors(work + "/out")
assert {n: t for n, t in back.items()} == {n: ("F32", [2, 2, 64], x) for n, x in raw.items()}
PY
check "run.sh omits a peer whose packages are missing" \
    env PATH="/usr/bin:/bin" tools/peers/run.sh "$work/none.md" "$(command -v false)"

# by_isa.py joins tables of two instruction sets: one table lacks a row, and one column is not requested.
printf '## T\n\n- CPU: x\n\n| who | GB/s | over |\n|---|---|---|\n| a | 1.5 (1.2 .. 1.6) | 2 |\n| b | 3 | - |\n' >"$work/one.md"
printf '## T\n\n| who | GB/s | over |\n|---|---|---|\n| a | 4 | 5 |\n' >"$work/two.md"
by_isa() { "$python" tools/peers/by_isa.py "$@" >"$out" 2>"$err"; }
check "tables of two instruction sets stand side by side" by_isa -c GB/s x="$work/one.md" y="$work/two.md"
check "the joined table has medians, and - for a missing row" diff - "$out" <<'TABLE'

## T

| who | GB/s, x | GB/s, y |
|---|---|---|
| a | 1.5 | 4 |
| b | 3 | - |
TABLE
no_isa() { ! by_isa "$work/one.md"; }
check "a table without NAME= is refused" no_isa
check "the error has the syntax NAME=FILE" grep -q "one.md: need NAME=FILE" "$err"

# The language model's forward agrees with NumPy's, on a random model of 48 kB.
lm=tests/fixtures/lm
numpy_nll() { # options...
    "$python" tools/peers/lm_numpy.py --kvreel "$kvreel" --threads 1 --model $lm --ids $lm/texts.safetensors \
        --text a --tokens 192 "$@" >"$out" 2>"$err"
}
if python_has "numpy gguf" "a language model's likelihood is NumPy's"; then
    check "a language model's likelihood is NumPy's" numpy_nll
    differs() { ! numpy_nll --within -1; }
    check "lm_numpy.py fails with a negative tolerance" differs
fi

python_has "numpy torch" "a quantiser that is off by one code is not timed" || exit 0
check "attention.py finds the shapes of the rows" "$python" - <<'PY'
import sys
sys.path.insert(0, "tools/peers")
import attention
rows = ["attention.fused.BF16.192x4800", "attention.bf16.BF16.108x756", "attention.bf16.BF16.108x756.onednn"]
assert attention.row_shapes(rows) == ["192x4800", "108x756"], attention.row_shapes(rows)
PY
# A stub of the study's package agrees with kvreel and is timed. A stub in which one code is wrong by one is refused.
mkdir -p "$work/good/kv_quant" "$work/bad"
cat >"$work/good/kv_quant/rtn.py" <<'PY'
import torch_codecs
OFF = 0
class RTNQuantizer:
    __abstractmethods__ = ("estimate_active_kv_bytes",)
    def __init__(self, bits, block_size):
        self.codec = torch_codecs.Rtn(bits, "k")
    def quantize_kv(self, k, v):
        state = [self.codec.encode(x) for x in (k, v)]
        state[1][0].view(-1)[1000] += OFF
        return state
    def dequantize_kv(self, state):
        return [self.codec.decode(s) for s in state]
PY
cp -r "$work/good/kv_quant" "$work/bad/"
sed -i 's/^OFF = 0/OFF = 1/' "$work/bad/kv_quant/rtn.py"
try() { # folder
    "$python" tools/peers/study_codecs.py --kvreel "$kvreel" --study "$1" --methods RTN_INT4 \
        --input BF16 --threads 1 --rounds 3 >"$out" 2>"$err"
}
refuses() { ! try "$1"; }
check "a quantiser that agrees is timed" try "$work/good"
check "the table has the ratio of the times" grep -q '^| RTN_INT4 | BF16 | 1 | [0-9.]* ([0-9.]*) | [0-9.]* ([0-9.]*) | [0-9.]* (' "$out"
check "a quantiser that is off by one code is not timed" refuses "$work/bad"
check "the error counts the values that differ" grep -q '1 of 7188480 decoded values differ' "$err"
check "no table is printed" test ! -s "$out"
