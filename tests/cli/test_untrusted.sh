#!/usr/bin/env bash
# A database of unknown origin: no value in a cell's spec ends `report`. Only the cells with such a value lack a
# prediction.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
shared_sweep "$work/tiny.yaml" "$work/t.db" "$work/o"
cd "$work" || exit 1
spec() { # SQL: sets the specs of RTN_INT4's cells in a copy of the database
    cp t.db bad.db
    changed bad.db "UPDATE cell SET spec = $1 WHERE name = 'RTN_INT4'"
}
predicted() { jq -c '[.[] | select(.predicted_bytes > 0).method] | unique' "$out"; }

exits 0 "the cost table" report --db t.db -t cost --format json
check "predicts the memory of every method" test "$(predicted)" = '["BF16","RTN_INT2","RTN_INT4"]'
for value in "options.bits', 4" "options.bits', json('null')" "options.bits', json('[4]')" "options', 4" "plan', 4" "model', 4" \
    "frames', 0" "frames', -6" "frames', 2147483647" "frames', 12345678901"; do
    spec "json_set(spec, '\$.$value)"
    exits 0 "the cost table of a spec with $value" report --db bad.db -t cost --format json
    check "predicts the others' memory" test "$(predicted)" = '["BF16","RTN_INT2"]'
done
