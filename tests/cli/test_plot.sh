#!/usr/bin/env bash
# Every figure of `kvreel plot`: script and data are written, the same each time, and drawn.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/p.db" "$work/out"
cat >"$work/probe.yaml" <<'YAML'
question: can every figure of probed cells be drawn?
model: nano
suite:
  - {suite: moviegen-nano, prompts: 2}
  - {suite: storyeval-nano, prompts: 1}
methods: [BF16, RTN_INT2]
frames: 6
kind: probe
YAML
"$kvreel" run "$work/probe.yaml" --db "$work/probe.db" --out "$work/out" -q >"$out" 2>"$err" ||
    fail "the probing sweep runs: $(tail -n 3 "$err")"
cat >"$work/truth.yaml" <<'YAML'
question: can every figure of continued clips be drawn?
model: nano
suite: {suite: continue-nano, prompts: 2}
methods: [BF16, RTN_INT4, RTN_INT2]
frames: 9
YAML
"$kvreel" run "$work/truth.yaml" --db "$work/truth.db" --out "$work/out" -q >"$out" 2>"$err" ||
    fail "the sweep with a truth runs: $(tail -n 3 "$err")"

"$kvreel" plot --list >"$work/plots"
check "there are figures" test "$(wc -l <"$work/plots")" -ge 14
while read -r name _; do
    db=$work/p.db
    case $name in
    age_error* | mass_shift) db=$work/probe.db ;;
    drift_truth) db=$work/truth.db ;;
    esac
    exits 0 "figure $name" plot "$name" --db "$db" -o "$work/a" --format svg
    "$kvreel" plot "$name" --db "$db" -o "$work/b" --format svg >/dev/null 2>&1
    check "$name: data and script, the same each time" \
        bash -c "cmp '$work/a/$name.gp' '$work/b/$name.gp' && cmp '$work/a/$name.tsv' '$work/b/$name.tsv'"
    if command -v gnuplot >/dev/null; then
        exits 0 "figure $name as JSON" plot "$name" --db "$db" -o "$work/a" --format svg --json
        json "$name is drawn" '.drawn and .warning == "" and .figures >= 1'
        check "$name has a picture" grep -q '</svg>' "$work/a/$name.svg"
    else
        skip "$name is drawn" "no gnuplot here"
    fi
done <"$work/plots"
# The curve of one method against SQLite's own mean.
want=$(sql "$work/p.db" "SELECT printf('%.6f', avg(value)) FROM series JOIN cell ON cell = key
    WHERE series.name = 'ssim' AND idx = 8 AND method = 'RTN_INT2'")
check "the last point of drift is the mean over prompts" \
    bash -c "awk -v want=$want '/^# [A-Z]/{on = /^# RTN_INT2$/} on && \$2 == 8 {found = sprintf(\"%.6f\", \$3) == want} END {exit !found}' '$work/a/drift.tsv'"
exits 2 "no such figure" plot drfit --db "$work/p.db" -o "$work/a"
says "the nearest is named" "did you mean 'drift'"
exits 2 "nothing was probed" plot mass_shift --db "$work/p.db" -o "$work/a"
