#!/usr/bin/env bash
# A NaN ends its cell with outcome NAN and verdict INVALID, and the cell's reason has the chunk, step and frame.
# Other cells are not affected. The first NaN is in the model: in the embedding of a word that only one prompt uses,
# from chunk 2 on. The second NaN comes from a plug-in's cache, which returns a NaN from chunk 1 on.
. tests/cli/lib.sh || exit 1
plugin=$(dirname "$kvreel")/tests/plugins/poison.so
if [ ! -e "$plugin" ]; then
    fail "$plugin is not built: make unit"
    exit 1
fi
cd "$work" || exit 1

mkdir broken
cp "$root"/models/nano/{config.json,dit.safetensors,prompt_table.safetensors} broken/
word=$(jq '.vocabulary | index("motion:orbits")' broken/config.json)
width=$(jq .text_dim broken/config.json)
header=$(od -An -tu8 -N8 broken/prompt_table.safetensors)
begin=$(tail -c +9 broken/prompt_table.safetensors | head -c $((header)) |
    jq '.token_embedding.data_offsets[0]')
printf '\0\0\300\177' | dd of=broken/prompt_table.safetensors bs=1 conv=notrunc 2>/dev/null \
    seek=$((8 + header + begin + 4 * (word * width + 5))) # a quiet NaN in F32
check "at most four bytes of the model are changed" test "$(cmp -l broken/prompt_table.safetensors \
    "$root/models/nano/prompt_table.safetensors" | wc -l)" -le 4

cat >sweep.yaml <<YAML
question: what does a NaN do to a sweep?
model: [nano, ./broken]
prompts:
  - {id: fine, text: a large red disc bounces over a plain blue background}
  - {id: turns, text: "a large red disc bounces over a plain blue background; @2: it orbits"}
plugins: [$plugin]
methods: [BF16, POISONED_INT4, RTN_INT4]
frames: 9
seed: 2
YAML
exits 3 "a sweep with NaNs exits with status 3" run sweep.yaml --db t.db -o o -q --json
json "the sweep runs all its cells" '.cells == 12 and .ok == 6'
cells() { # SQL-CONDITION: prints model, prompt, method, outcome and verdict of each such cell
    sql t.db "SELECT model || ' ' || prompt_id || ' ' || name || ' ' || outcome || ' ' || verdict
        FROM cell WHERE $1 ORDER BY model, prompt_id, name"
}
check "the cells without a NaN are OK and VALID" test "$(cells "outcome = 'OK'")" = "broken fine BF16 OK VALID
broken fine RTN_INT4 OK VALID
nano fine BF16 OK VALID
nano fine RTN_INT4 OK VALID
nano turns BF16 OK VALID
nano turns RTN_INT4 OK VALID"
check "the cells with a NaN are INVALID" test "$(cells "outcome = 'NAN'")" = \
    "broken fine POISONED_INT4 NAN INVALID
broken turns BF16 NAN INVALID
nano fine POISONED_INT4 NAN INVALID
nano turns POISONED_INT4 NAN INVALID"
check "cells whose reference has a NaN are SKIPPED" test "$(cells "outcome = 'SKIPPED'")" = \
    "broken turns POISONED_INT4 SKIPPED INVALID
broken turns RTN_INT4 SKIPPED INVALID"
where() { sql t.db "SELECT DISTINCT substr(reason, 1, 33) FROM cell WHERE outcome = 'NAN' AND $1"; }
check "the NaN of the model is reported in chunk 2, step 0, frame 6" test \
    "$(where "name = 'BF16'")" = "sampler: chunk 2 step 0: frame 6:"
check "the NaN of the cache is reported in chunk 1, step 0, frame 3" test \
    "$(where "name <> 'BF16'")" = "sampler: chunk 1 step 0: frame 3:"
check "cells with a NaN store no results" test "$(sql t.db "SELECT (SELECT count(*) FROM metric JOIN cell
    ON key = cell WHERE outcome <> 'OK') + (SELECT count(*) FROM cell WHERE outcome <> 'OK' AND
    (wall_ns IS NOT NULL OR nominal_bytes IS NOT NULL)) + (SELECT count(*) FROM artifact JOIN cell
    ON key = cell WHERE outcome <> 'OK')")" = 0
frames() { # MODEL: hashes of the frames of prompt `fine`, which does not use the broken word
    sql t.db "SELECT group_concat(sha256) FROM (SELECT a.sha256 FROM artifact a JOIN cell c ON
        c.key = a.cell WHERE a.kind = 'frames' AND c.model = '$1' AND c.prompt_id = 'fine'
        ORDER BY c.name)"
}
check "the broken word does not change the frames of the other prompt" test "$(frames nano)" = "$(frames broken)"
exits 0 "the table of failures" report --table failures --db t.db
prints "the table of failures has chunk, step and frame" 'NAN.*chunk 2 step 0: frame 6'
exits 3 "the same sweep again" run sweep.yaml --db t.db -o o -q --json
json "failed cells are not run again, and SKIPPED cells are tried again" '.ok == 0 and .done_before == 10'
