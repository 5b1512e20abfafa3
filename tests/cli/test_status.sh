# shellcheck shell=bash
# test_status.sh - the plan is stored in the database, so open cells are listed during a run and afterwards.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

tiny_config c.yaml
cat >>c.yaml <<'YAML'
exclude: [{when: "name=RTN_INT2 & prompt=green", reason: not now}]
YAML

exits 0 "a limited run" run c.yaml --db a.db -o out --limit 2 -q
prints "says what it left" ', 3 open'
exits 0 "status" status --db a.db --json
json "has all cells of the plan" '.sweeps[0] | .cells == 6 and .ok == 2 and .open == 3 and .excluded == 1 and .failed == 0 and .unsupported == 0'
json "and what the run was asked for" '.sweeps[0].narrowed == "limit 2" and .sweeps[0].state == "done" and .writer == null'
json "and how long the rest takes" '.sweeps[0].left_s > 0'
exits 0 "as text" status --db a.db
prints "in words" '6 cells: 2 ok, 0 failed, 0 unsupported, 1 excluded, 3 open'
prints "and not that it is done" '^c \(c.yaml\): not all cells finished, started'
for t in summary coverage failures; do
    exits 0 "the table $t" report --table $t --db a.db
    prints "says that it is not all" 'NOT ALL: c: 3 of 6 cells open, limit 2'
done
exits 0 "stats" stats coverage --db a.db
prints "say so, too" 'NOT ALL: c: 3 of 6 cells open'
prints "and has the methods that nobody tried" '^RTN_INT2 .*0/[0-9]+ O'
exits 0 "a figure" plot pareto --db a.db -o plots --format svg
check "says so, too" grep -q 'NOT ALL: c: 3 of 6 cells open' plots/pareto.gp
exits 0 "coverage counts what nobody tried" query --db a.db --json \
    "SELECT sum(n_planned) AS p, sum(n_open) AS o, sum(n_excluded) AS x FROM coverage"
json "as open" '.[0].p == 6 and .[0].o == 3 and .[0].x == 1'
check "what a rule leaves out is EXCLUDED" \
    test "$(sql a.db "SELECT group_concat(outcome) FROM cell WHERE reason <> ''")" = EXCLUDED
check "and no failure" test "$(sql a.db 'SELECT count(*) FROM failures')" = 0

exits 0 "a filtered run" run c.yaml --db a.db -o out --filter 'method=RTN_INT2' -q
exits 0 "looks like one" report --table summary --db a.db
prints "until the rest is there" 'NOT ALL: c: 1 of 6 cells open, filter method=RTN_INT2'
exits 0 "the rest" run c.yaml --db a.db -o out -q
exits 0 "a whole sweep" report --table summary --db a.db
check "needs no note" bash -c "! grep -q 'NOT ALL' '$out'"
exits 0 "and has nothing open" status --db a.db --json
json "in its status" '.sweeps[0] | .ok == 5 and .open == 0 and .excluded == 1 and .narrowed == ""'

# A sweep is listed even if another sweep has measured all its cells.
for m in '[BF16, RTN_INT4]' '[BF16]'; do
    printf '%s\n' 'question: q' 'model: nano' "methods: $m" 'frames: 6' 'baselines: none' 'control: 0' \
        'prompts: [{id: p, text: a large red disc drifts right}]' >shared.yaml
    exits 0 "a sweep of $m" run shared.yaml --db shared.db -o out --json
done
json "has nothing left to run" '.ok == 0 and .done_before == 1'
exits 0 "its status" status --db shared.db --json
json "is that of the last run" '[.sweeps[] | select(.cells == 1 and .ok == 1 and .open == 0)] | length == 1'

# Of two runs that began in the same second, status shows the later one, whatever their ids.
cp a.db second.db
sqlite3 second.db "UPDATE session SET started = (SELECT max(started) FROM session)"
exits 0 "runs of one second" status --db second.db --json
json "the last is the one that began last" '.sweeps[0].narrowed == ""'
sqlite3 second.db "UPDATE about SET value = '9' || value WHERE name = 'began_ns' AND
    session = (SELECT session FROM about WHERE name = 'filter')"
exits 0 "another one later" status --db second.db --json
json "is the last" '.sweeps[0].narrowed == "filter method=RTN_INT2"'

# A failed cell of a method that the config no longer has: `status` and the view `failures` refer to the same run.
cp a.db narrow.db
sqlite3 narrow.db "UPDATE cell SET outcome = 'TIMEOUT', verdict = 'INVALID', verdict_codes = 'TIMEOUT', reason = 'slow' WHERE method = 'RTN_INT2' AND outcome = 'OK'"
exits 0 "status of a failed cell" status --db narrow.db --json
json "counts it" '.sweeps[0].failed == 1'
exits 0 "failures" query --db narrow.db --json "SELECT method FROM failures"
json "name it" '.[0].method == "RTN_INT2" and length == 1'
sed -i.all 's/, RTN_INT2\]/, RTN_INT8]/; /exclude/d' c.yaml
exits 0 "the config with another one" run c.yaml --db narrow.db -o out -q
exits 0 "status of the last run" status --db narrow.db --json
json "has no failure" '.sweeps[0] | .cells == 6 and .ok == 6 and .failed == 0'
exits 0 "failures of the last run" query --db narrow.db --json "SELECT method FROM failures"
json "neither" 'length == 0'
mv c.yaml.all c.yaml

# Status during a run, and after the run was killed.
sed -i 's/frames: 6/frames: 96/' c.yaml
"$kvreel" run c.yaml --db b.db -o out2 --jobs 1 -q >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do
    "$kvreel" status --db b.db --json >"$out" 2>/dev/null
    holds_true '.sweeps[0].running | length > 0' >/dev/null 2>&1 && break
    sleep 0.05
done
json "a running sweep says what runs" '.writer != null and (.sweeps[0] | .state == "running" and (.running[0].method == "BF16") and .open == 5)'
kill -KILL $pid
wait $pid 2>/dev/null
exits 0 "status of one that was killed" status --db b.db --json
json "says so" '.writer == null and .sweeps[0].state == "died" and .sweeps[0].running == []'
exits 2 "a database that is not there" status --db none.db
