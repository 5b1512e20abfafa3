#!/usr/bin/env bash
# A database of unknown origin: no value in a cell's spec ends `report` or `score`. Only the cells with such a value
# lack a prediction or a score.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
shared_sweep "$work/tiny.yaml" "$work/t.db" "$work/o"
cd "$work" || exit 1
spec() { # SQL: sets the specs of RTN_INT4's cells in a copy of the database
    cp t.db bad.db
    changed bad.db "UPDATE cell SET spec = $1 WHERE name = 'RTN_INT4'"
}
predicted() { jq -c '[.[] | select(.predicted_bytes > 0).method] | unique' "$out"; }

exits 0 "the cost table of the unchanged database" report --db t.db -t cost --format json
check "the table predicts the memory of every method" test "$(predicted)" = '["BF16","RTN_INT2","RTN_INT4"]'
for value in "options.bits', 4" "options.bits', json('null')" "options.bits', json('[4]')" "options', 4" "plan', 4" "model', 4" \
    "frames', 0" "frames', -6" "frames', 2147483647" "frames', 12345678901"; do
    spec "json_set(spec, '\$.$value)"
    exits 0 "the cost table of a spec with $value" report --db bad.db -t cost --format json
    check "the table predicts the memory of the other methods" test "$(predicted)" = '["BF16","RTN_INT2"]'
done

for value in "frames', 0" "frames', -1" "frames', 7" "frames', 4294967302" "truth.given', 6" "truth.given', -1" \
    "truth.given', 4294967297" "truth.given', 2147483647" "metrics', 4" "commands', 4" "text', char(0)"; do
    spec "json_set(json_set(spec, '\$.truth', json('{}')), '\$.$value)"
    exits 3 "score with $value" score sharpness --db bad.db --out o --json
    json "score skips only these cells" '.cells == 6 and .scored == 4 and .failed == 2'
    says "the message states the invalid values" 'score: (red|green) RTN_INT4: (the stored video has 6 frames, but|score: column spec of a cell)'
done
