#!/usr/bin/env bash
# results/claims.yaml is complete and readable, and docs/claims.md has the same claims.
. tests/cli/lib.sh || exit 1

exits 0 "claims without a database" claims --json
cp "$out" "$work/claims.json"
json "there are at least 160 claims" 'length >= 160'
json "each claim has a text, a source and a verdict" 'all(.[]; .id and .says and .source and
    (.verdict | IN("holds", "does not hold", "equal", "futile", "cannot be told here")))'
json "a claim that cannot be told here has a reason" \
    'all(.[] | select(.verdict == "cannot be told here"); .why | length > 0)'
json "a claim that needs another machine names the command that settles it" \
    'all(.[] | select(.shown_by == null); .why | test("settled by: (kvreel|tools/device-check.sh --pack) "))'
json "a claim that needs minutes of a GPU names its device-check package" \
    'map(select((.why // "") | test("one H100|an H100|an H200"))) | length >= 15 and all(.[]; .why |
        test("^needs [0-9]+ minutes? of ") and test("device-check.sh --pack .* CONFIG=configs/cost-card.yaml .* --run "))'
json "the published compression ratios of the study hold" \
    '[.[] | select(.id | startswith("ratio-")) | .verdict] | length >= 10 and all(. == "holds")'
while read -r id; do
    check "docs/claims.md has $id" grep -qF "\`$id\`" docs/claims.md
done < <(jq -r '.[].id' "$work/claims.json")
check "docs/claims.md lists each claim once and no others" test \
    "$(sed '1,/^## /d; /^### /,/^## /d' docs/claims.md | grep '^ *[|*]' | grep -o '`[a-z0-9-]*`' | sort | uniq -c | awk '$1 == 1' | wc -l)" -eq \
    "$(jq length "$work/claims.json")"

tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
exits 0 "a sweep for a user-written ledger" run tiny.yaml --db t.db --out o -q
cat >mine.yaml <<'END'
sources: {me: my own}
claims:
  - {id: one, source: me, at: here, says: s, more: {metric: psnr, of: RTN_INT4, than: RTN_INT2}}
END
exits 0 "claims reads a user-written ledger" claims mine.yaml --db t.db --json
json "two prompts give no verdict, and claims says how many are needed" \
    '.[0].n == 2 and .[0].figure > 0 and (.[0].why | test("2 prompts, 12 are needed"))'
# elsewhere METHOD MORE: adds a newer copy of the method's cells, measured on another machine, with MORE added to
# PSNR.
elsewhere() { # METHOD MORE
    local names cells sessions
    names=$(sql u.db "SELECT group_concat(name) FROM pragma_table_xinfo('cell') WHERE hidden = 0")
    cells=$(sed "s/\bkey\b/substr(key, 2) || 'x'/; s/\bsession\b/'other'/; s/\bfinished\b/'2099-01-01T00:00:00Z'/" <<<"$names")
    sessions=$(sql u.db "SELECT group_concat(name) FROM pragma_table_xinfo('session') WHERE hidden = 0" | sed "s/\bid\b/'other'/")
    changed u.db "INSERT OR IGNORE INTO session SELECT $sessions FROM session LIMIT 1;
        INSERT OR IGNORE INTO about(session, name, value) VALUES ('other', 'machine', 'ffffffff');
        INSERT INTO cell($names) SELECT $cells FROM cell WHERE method = '$1';
        INSERT INTO metric(cell, name, value, unit, n) SELECT substr(cell, 2) || 'x', name, value + $2, unit, n
            FROM metric WHERE name = 'psnr' AND cell IN (SELECT key FROM cell WHERE method = '$1')"
}
first=$(jq '.[0].figure' "$out")
cp t.db u.db
elsewhere RTN_INT2 1
exits 0 "claims after one method was measured again on another machine" claims mine.yaml --db u.db --json
json "claims still pairs the cells of the first machine" --argjson first "$first" '.[0].n == 2 and .[0].figure == $first'
elsewhere RTN_INT4 3
exits 0 "claims after both methods were measured on the other machine" claims mine.yaml --db u.db --json
json "claims uses the newest cells of one machine" --argjson first "$first" '.[0].n == 2 and (.[0].figure - $first - 2 | fabs) < 1e-9'
cat >ratios.yaml <<'END'
sources: {me: my own}
claims:
  - {id: default, source: me, at: a, says: s, ratio: {method: RTN_INT4, is: "3.20"}}
  - {id: group, source: me, at: a, says: s, ratio: {method: RTN_INT4, options: {group: 32}, is: "3.55"}}
END
exits 0 "claims computes compression ratios of methods with options" claims ratios.yaml --json
json "the ratios depend on the options" 'length == 2 and all(.verdict == "holds") and .[0].figure < .[1].figure'
sed -i 's/group: 32/grop: 32/' ratios.yaml
exits 2 "claims refuses an option that the method lacks" claims ratios.yaml
says "the error names the option and its line" "ratios.yaml:4:[0-9]*: grop=32: RTN_INT4 has no option"
sed -i 's/more:/mor:/' mine.yaml
exits 2 "an unknown key in a ledger is refused" claims mine.yaml --db t.db
says "the error names file and line" 'mine.yaml:3'
exits 2 "a missing ledger is refused" claims none.yaml

echo '[{"id": "a", "verdict": "holds", "lo": 1, "hi": 2, "n": 12}, {"id": "b", "verdict": "holds", "lo": 1, "hi": 2, "n": 12},
    {"id": "c", "verdict": "holds", "lo": 1, "hi": 2, "n": 12}]' >fixed.json
echo '[{"id": "a", "verdict": "cannot be told here", "lo": -1, "hi": 3, "n": 18, "n_needed": 24.2, "margin": 0.5},
    {"id": "b", "verdict": "holds", "lo": 1, "hi": 2, "n": 18}, {"id": "c", "verdict": "cannot be told here"}]' >now.json
jq 'map(. + {says: "", source: "", shown_by: "x"})' now.json |
    jq -r --slurpfile fixed fixed.json -f "$root/tools/measure/claims.jq" >page 2>"$err" || true
check "claims.jq lists verdicts that changed" grep -qFx '* holds, now open: `a`' page
check "claims.jq lists no other verdict as changed" test "$(grep -c ', now ' page)" -eq 1
