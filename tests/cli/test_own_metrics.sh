#!/usr/bin/env bash
# A metric of an external program is treated like a built-in one: unit, direction, statistics, fronts and report.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cat >mine.sh <<'SH'
# Prints the size of the cell's video, which depends on the method. It also tries to write a file.
(echo x >"./left-$2") 2>/dev/null
printf '{"size": %s}' "$(stat -c %s "$1")"
SH
tiny_config plain.yaml 3
{ cat plain.yaml; echo 'metrics: [psnr, ssim, {command: "sh ./mine.sh {video} held", name: mine, unit: B, better: lower, scores: [size]},
  {command: "sh ./mine.sh {video} free", name: mute, sandbox: none, scores: [size]},
  {command: "echo five", name: poor, unit: B, better: lower, scores: [size]}]'; } >own.yaml
sed 's/better: lower/better: less/' own.yaml >wrong.yaml
exits 2 "a direction that is none" run wrong.yaml --db t.db --out o --dry-run
says "says which there are" "better 'less': expected higher or lower"
exits 0 "a sweep with programs that score" run own.yaml --db t.db --out o -q
says "says of which program nobody has a number, and why" '^kvreel: metric poor has no value in 6 of 6 cells, because its program failed; one of the errors: echo: the metric program printed no JSON'
check "and of no other" test "$(grep -c 'has no value' "$err")" -eq 1
exits 2 "such a number" stats paired -m poor.size --db t.db
says "is none, for that reason" "metric 'poor.size' has no numeric value: echo: the metric program printed no JSON"
check "unit and direction are known" test "$(sql t.db "SELECT group_concat(name || ' ' || coalesce(unit, '-') || ' ' ||
    coalesce(better, '-'), ', ') FROM (SELECT * FROM own_metrics ORDER BY name)")" = \
    'mine.size B -1, mute.size - -, poor.size B -1'
check "what ran without a sandbox by wish says so in its row" test "$(sql t.db "SELECT DISTINCT value FROM metric
    WHERE name = 'mute.sandbox'") $(ls left-free)" = '0.0 left-free'
case $(sql t.db "SELECT DISTINCT coalesce(value, missing) FROM metric WHERE name = 'mine.sandbox'") in
1.0) check "the other was held" test ! -e left-held ;;
'not sandboxed: '*) skip "a program is held" "neither bwrap nor Landlock works here" ;;
*) fail "the other was held, or its row says why not" ;;
esac
exits 0 "stats" stats paired -m mine.size --db t.db
prints "say which way is better" 'mine.size, lower is better; difference to BF16'
exits 0 "the same as JSON" stats paired -m mine.size --db t.db --json
json "the smallest is first" '(map(.mean) == (map(.mean) | sort)) and length == 3'
exits 2 "a number of which nobody said it" stats paired -m mute.size --db t.db
says "is asked for" "has no direction"
exits 0 "unless it is said here" stats paired -m mute.size --better higher --db t.db --json
json "the largest is first" '(map(.mean) == (map(.mean) | sort | reverse)) and length == 3'
exits 2 "a way that is none" stats paired -m mute.size --better up --db t.db
exits 2 "a number that nobody has" stats paired -m mine.none --db t.db
exits 0 "a front" pareto --db t.db --objectives mine.size:min,compression:max --json
json "has it" 'all(.[]; .["mine.size"] > 0)'
exits 0 "the page" report --db t.db --media o -o rep
check "has it among its metrics, with unit and direction" grep -q '{"name":"mine.size","title":"mine.size","unit":"B","better":-1}' rep/index.html
check "and not the one without" bash -c "! grep -q '\"name\":\"mute.size\"' rep/index.html"
check "both by cell" grep -q '"mute.size":' rep/index.html
