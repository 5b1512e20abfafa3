#!/usr/bin/env bash
# status, the views, tables and the page must agree about the numbers of excluded, unsupported, open and failed cells.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
tiny_config w.yaml 3
echo 'exclude: [{when: "name=RTN_INT2 & prompt=red", reason: on purpose}]' >>w.yaml
exits 0 "run --limit 3 of six cells, one of which is excluded" run w.yaml --db w.db --out o -q --limit 3
changed w.db "UPDATE cell SET outcome = 'TIMEOUT', reason = 'too long', verdict = 'INVALID', verdict_codes = 'TIMEOUT'
    WHERE key = (SELECT max(key) FROM cell WHERE outcome = 'OK' AND NOT is_baseline)"
exits 0 "status of the database" status --db w.db --json
json "status counts 2 ok, 1 failed, 1 excluded, 2 open" '.. | objects | select(has("excluded")) | .ok == 2 and .failed == 1 and .excluded == 1 and .open == 2 and .unsupported == 0'
check "the view coverage has the same counts" test "$(sql w.db "SELECT sum(n_ok) || sum(n_failed) || sum(n_excluded) || sum(n_open) || sum(n_unsupported)
    FROM coverage")" = 21120
check "the view holes lists excluded, failed and open cells" test "$(sql w.db "SELECT group_concat(kind || n, ' ') FROM (SELECT kind, count(*) AS n FROM holes GROUP BY kind)")" = \
    'excluded1 failed1 open2'
exits 0 "report -t coverage" report --db w.db -t coverage --format json
json "the table coverage has the same counts" '(map(.n_ok) | add) == 2 and (map(.n_failed) | add) == 1 and (map(.n_excluded) | add) == 1 and (map(.n_open) | add) == 2'
exits 0 "report -t summary" report --db w.db -t summary
prints "the summary notes 1 failed cell" '1 cell failed: left out of all means'
prints "the summary notes 1 excluded cell separately" '1 cell excluded: left out of all means'
exits 0 "report writes a page" report --db w.db --media o -o rep
if has_browser "the page"; then
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$work/rep/index.html" >dom 2>/dev/null
    check "the page has the same counts" grep -q '2 of 6 measured, 1 failed, 1 excluded, 2 open' dom
    check "the page's failures have the heading 'failed: TIMEOUT'" grep -q '<h3>failed: TIMEOUT</h3>' dom
    check "the page's holes have the heading 'excluded: EXCLUDED'" grep -q '<h3>excluded: EXCLUDED</h3>' dom
fi
