# shellcheck shell=bash
# test_status.sh - a run stores its plan in the database. From it, status, reports and figures list the cells that are
# still open, during the run and after it.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

tiny_config c.yaml
cat >>c.yaml <<'YAML'
exclude: [{when: "name=RTN_INT2 & prompt=green", reason: not now}]
YAML

exits 0 "run --limit 2" run c.yaml --db a.db -o out --limit 2 -q
prints "run reports the 3 open cells" ', 3 open'
prints "the summary names the database, the videos and the next command" '^results in a[.]db, videos in out/by-name; next: kvreel report --db a[.]db$'
exits 0 "status after the limited run" status --db a.db --json
json "status counts all 6 planned cells by outcome" '.sweeps[0] | .cells == 6 and .ok == 2 and .open == 3 and .excluded == 1 and .failed == 0 and .unsupported == 0'
json "status shows the run's limit and that the run ended" '.sweeps[0].narrowed == "limit 2" and .sweeps[0].state == "done" and .writer == null'
json "status estimates the time of the open cells" '.sweeps[0].left_s > 0'
exits 0 "status prints text" status --db a.db
prints "the text counts cells by outcome" '6 cells: 2 ok, 0 failed, 0 unsupported, 1 excluded, 3 open'
prints "the text says that not all cells finished" '^c \(c.yaml\): not all cells finished, started'
for t in summary coverage failures; do
    exits 0 "report prints the table $t" report --table $t --db a.db
    prints "the table $t notes that cells are open" 'NOT ALL: c: 3 of 6 cells open, limit 2'
done
exits 0 "stats coverage after the limited run" stats coverage --db a.db
prints "stats coverage notes that cells are open" 'NOT ALL: c: 3 of 6 cells open'
prints "stats coverage lists a method without measured cells" '^RTN_INT2 .*0/[0-9]+ O'
exits 0 "plot pareto after the limited run" plot pareto --db a.db -o plots --format svg
check "the figure notes that cells are open" grep -q 'NOT ALL: c: 3 of 6 cells open' plots/pareto.gp
exits 0 "query of the view coverage" query --db a.db --json \
    "SELECT sum(n_planned) AS p, sum(n_open) AS o, sum(n_excluded) AS x FROM coverage"
json "the view coverage counts planned, open and excluded cells" '.[0].p == 6 and .[0].o == 3 and .[0].x == 1'
check "a cell that a rule excludes has the outcome EXCLUDED" \
    test "$(sql a.db "SELECT group_concat(outcome) FROM cell WHERE reason <> ''")" = EXCLUDED
check "an excluded cell is not in the view failures" test "$(sql a.db 'SELECT count(*) FROM failures')" = 0

exits 0 "run --filter method=RTN_INT2" run c.yaml --db a.db -o out --filter 'method=RTN_INT2' -q
exits 0 "report after the filtered run" report --table summary --db a.db
prints "the report names the filter and the open cell" 'NOT ALL: c: 1 of 6 cells open, filter method=RTN_INT2'
exits 0 "run of the remaining cell" run c.yaml --db a.db -o out -q
exits 0 "report after all runs" report --table summary --db a.db
check "the report has no note about open cells" bash -c "! grep -q 'NOT ALL' '$out'"
exits 0 "status after all runs" status --db a.db --json
json "status shows no open cell and no restriction" '.sweeps[0] | .ok == 5 and .open == 0 and .excluded == 1 and .narrowed == ""'

# A sweep is listed even if another sweep has measured all its cells.
for m in '[BF16, RTN_INT4]' '[BF16]'; do
    printf '%s\n' 'question: q' 'model: nano' "methods: $m" 'frames: 6' 'baselines: none' 'control: 0' \
        'prompts: [{id: p, text: a large red disc drifts right}]' >shared.yaml
    exits 0 "run of the sweep with methods $m" run shared.yaml --db shared.db -o out --json
done
json "the smaller sweep measures no cell again" '.ok == 0 and .done_before == 1'
exits 0 "status of two sweeps with shared cells" status --db shared.db --json
json "status lists the smaller sweep as complete" '[.sweeps[] | select(.cells == 1 and .ok == 1 and .open == 0)] | length == 1'

# Of two runs that began in the same second, status shows the later one, whatever their ids.
cp a.db second.db
sqlite3 second.db "UPDATE session SET started = (SELECT max(started) FROM session)"
exits 0 "query of the view sweeps" query --db a.db --json 'SELECT at, started FROM sweeps'
json "column at is the time when the last run began" \
    'all(.[]; .at | test("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{9}Z$"))'
cp a.db apart.db
sqlite3 apart.db "UPDATE sweep SET config = '(elsewhere)/c.yaml'"
exits 0 "status of a config outside the working folder" status --db apart.db
prints "the config is named by its file" '^c \(c[.]yaml\): '
exits 0 "status of runs that began in the same second" status --db second.db --json
json "status shows the run that began last" '.sweeps[0].narrowed == ""'
sqlite3 second.db "UPDATE about SET value = '9' || value WHERE name = 'began_ns' AND
    session = (SELECT session FROM about WHERE name = 'filter')"
exits 0 "status after the filtered run's start time was increased" status --db second.db --json
json "status shows the filtered run, which is now the last one" '.sweeps[0].narrowed == "filter method=RTN_INT2"'

# A cell of RTN_INT2 has failed, and the config no longer has RTN_INT2. `status` and the view `failures` must both
# describe the last run only, which has no failure.
cp a.db narrow.db
sqlite3 narrow.db "UPDATE cell SET outcome = 'TIMEOUT', verdict = 'INVALID', verdict_codes = 'TIMEOUT', reason = 'slow' WHERE method = 'RTN_INT2' AND outcome = 'OK'"
exits 0 "status of a failed cell" status --db narrow.db --json
json "status counts one failure" '.sweeps[0].failed == 1'
exits 0 "query of the view failures" query --db narrow.db --json "SELECT method FROM failures"
json "the view failures lists RTN_INT2" '.[0].method == "RTN_INT2" and length == 1'
sed -i.all 's/, RTN_INT2\]/, RTN_INT8]/; /exclude/d' c.yaml
exits 0 "run with RTN_INT8 in place of RTN_INT2" run c.yaml --db narrow.db -o out -q
exits 0 "status after the method was replaced" status --db narrow.db --json
json "status counts no failure of the removed method" '.sweeps[0] | .cells == 6 and .ok == 6 and .failed == 0'
exits 0 "query of the view failures after the method was replaced" query --db narrow.db --json "SELECT method FROM failures"
json "the view failures does not list the removed method" 'length == 0'
mv c.yaml.all c.yaml

# status during a run, and after the run was killed.
sed -i 's/frames: 6/frames: 96/' c.yaml
"$kvreel" run c.yaml --db b.db -o out2 --jobs 1 -q >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do
    "$kvreel" status --db b.db --json >"$out" 2>/dev/null
    holds_true '.sweeps[0].running | length > 0' >/dev/null 2>&1 && break
    sleep 0.05
done
json "status during a run names the running cell" '.writer != null and (.sweeps[0] | .state == "running" and (.running[0].method == "BF16") and .open == 5)'
kill -KILL $pid
wait $pid 2>/dev/null
exits 0 "status after the run was killed" status --db b.db --json
json "status shows that the run died" '.writer == null and .sweeps[0].state == "died" and .sweeps[0].running == []'
exits 2 "status refuses a missing database" status --db none.db
