#!/usr/bin/env bash
# A metric of an external program is treated like a built-in one: unit, direction, statistics, fronts and report.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cat >mine.sh <<'SH'
# Prints the size of the cell's video, which depends on the method. It also tries to write a file, which a sandbox
# prevents.
(echo x >"./left-$2") 2>/dev/null
printf '{"size": %s}' "$(stat -c %s "$1")"
SH
tiny_config plain.yaml 3
{ cat plain.yaml; echo 'metrics: [psnr, ssim, {command: "sh ./mine.sh {video} held", name: mine, unit: B, better: lower, scores: [size]},
  {command: "sh ./mine.sh {video} free", name: mute, sandbox: none, scores: [size]},
  {command: "echo five", name: poor, unit: B, better: lower, scores: [size]}]'; } >own.yaml
sed 's/better: lower/better: less/' own.yaml >wrong.yaml
exits 2 "an unknown direction is refused" run wrong.yaml --db t.db --out o --dry-run
says "the error lists the directions" "better 'less': expected higher or lower"
exits 0 "a sweep with metric programs" run own.yaml --db t.db --out o -q
says "the message names the metric without values, and the cause" '^kvreel: metric poor has no value in 6 of 6 cells, because its program failed; one of the errors: echo: the metric program printed no JSON'
check "no other metric lacks values" test "$(grep -c 'has no value' "$err")" -eq 1
exits 2 "stats refuses a metric without values" stats paired -m poor.size --db t.db
says "the error has the failure of the program" "metric 'poor.size' has no numeric value: echo: the metric program printed no JSON"
check "the database has the unit and direction of each metric" test "$(sql t.db "SELECT group_concat(name || ' ' || coalesce(unit, '-') || ' ' ||
    coalesce(better, '-'), ', ') FROM (SELECT * FROM own_metrics ORDER BY name)")" = \
    'mine.size B -1, mute.size - -, poor.size B -1'
check "a metric with sandbox: none is marked" test "$(sql t.db "SELECT DISTINCT value FROM metric
    WHERE name = 'mute.sandbox'") $(ls left-free)" = '0.0 left-free'
case $(sql t.db "SELECT DISTINCT coalesce(value, missing) FROM metric WHERE name = 'mine.sandbox'") in
1.0) check "a sandboxed metric program cannot write a file" test ! -e left-held ;;
'not sandboxed: '*) skip "a sandboxed metric program cannot write a file" "neither bwrap nor Landlock works here" ;;
*) fail "mine.sandbox is 1 or has a reason" ;;
esac
exits 0 "stats paired of mine.size" stats paired -m mine.size --db t.db
prints "stats prints the direction" 'mine.size, lower is better; difference to BF16'
exits 0 "stats paired of mine.size as JSON" stats paired -m mine.size --db t.db --json
json "the smallest mean is first" '(map(.mean) == (map(.mean) | sort)) and length == 3'
exits 2 "stats refuses a metric without a direction" stats paired -m mute.size --db t.db
says "the error says that the metric has no direction" "has no direction"
exits 0 "stats --better higher" stats paired -m mute.size --better higher --db t.db --json
json "the largest mean is first" '(map(.mean) == (map(.mean) | sort | reverse)) and length == 3'
exits 2 "stats refuses an unknown direction" stats paired -m mute.size --better up --db t.db
exits 2 "stats refuses an unknown metric" stats paired -m mine.none --db t.db
exits 0 "a front over mine.size" pareto --db t.db --objectives mine.size:min,compression:max --json
json "the front has mine.size" 'all(.[]; .["mine.size"] > 0)'
exits 0 "the HTML page" report --db t.db --media o -o rep
check "the page lists mine.size with unit and direction" grep -q '{"name":"mine.size","title":"mine.size","unit":"B","better":-1}' rep/index.html
check "the page does not list a metric without a direction" bash -c "! grep -q '\"name\":\"mute.size\"' rep/index.html"
check "the page has the values of mute.size" grep -q '"mute.size":' rep/index.html
