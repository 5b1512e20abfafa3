#!/usr/bin/env bash
# kvreel plot writes the script and data of every figure, reproducibly, and draws it.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/p.db" "$work/out"
exits 2 "plot runtime refuses times that do not count" plot runtime --db "$work/p.db" -o "$work/a"
says "the error counts the rows without a time" 'none of [0-9]+ rows has both runtime_s and ssim'
says "the error names timing: true" 'timing: true.*UNTIMED'
changed "$work/p.db" "UPDATE cell SET time_codes = ''" # a sweep with timing: true has no codes
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

lm=$root/tests/fixtures/lm
cat >"$work/text.yaml" <<YAML
question: does it read
name: text
model: $lm
prompts: [{id: a, text: noise, tokens: {file: $lm/texts.safetensors, tensor: a}}]
frames: 192
chunk: 32
prefix: 32
scored: 32
metrics: [psnr]
methods: [BF16, RTN_INT2]
YAML
"$kvreel" run "$work/text.yaml" --db "$work/text.db" --out "$work/out" -q >"$out" 2>"$err" ||
    fail "the sweep of a text runs: $(tail -n 3 "$err")"

sed 's/^methods: .*/methods: [BF16, RTN_INT2, RTN_INT4, RTN_INT8, KIVI_INT2, KIVI_INT4, NF4_G64, PRQ_INT2]/' "$work/text.yaml" >"$work/texts.yaml"
"$kvreel" run "$work/texts.yaml" --db "$work/texts.db" --out "$work/out" -q >"$out" 2>"$err" ||
    fail "the sweep of a text and more methods runs: $(tail -n 3 "$err")"

"$kvreel" plot --list >"$work/plots"
check "plot --list has at least 14 figures" test "$(wc -l <"$work/plots")" -ge 14
while read -r name _; do
    [ "$name" != claims ] || continue # needs a ledger; tests/report/test_forest.c tests it
    db=$work/p.db
    case $name in
    age_* | mass_shift) db=$work/probe.db ;;
    drift_truth) db=$work/truth.db ;;
    prefill*) db=$work/text.db ;;
    esac
    exits 0 "figure $name" plot "$name" --db "$db" -o "$work/a" --format svg
    "$kvreel" plot "$name" --db "$db" -o "$work/b" --format svg >/dev/null 2>&1
    check "$name: data and script are equal in two runs" \
        bash -c "cmp '$work/a/$name.gp' '$work/b/$name.gp' && cmp '$work/a/$name.tsv' '$work/b/$name.tsv'"
    if has gnuplot "$name is drawn"; then
        exits 0 "figure $name as JSON" plot "$name" --db "$db" -o "$work/a" --format svg --json
        json "$name is drawn without a warning" '.drawn and .warning == "" and .figures >= 1'
        check "$name has a picture" grep -q '</svg>' "$work/a/$name.svg"
    fi
done <"$work/plots"
# The curve of one method equals the mean that SQLite computes.
want=$(sql "$work/p.db" "SELECT printf('%.6f', avg(value)) FROM series JOIN cell ON cell = key
    WHERE series.name = 'ssim' AND idx = 8 AND method = 'RTN_INT2'")
check "the last point of drift is the mean over prompts" \
    bash -c "awk -v want=$want '/^# [A-Z]/{on = /^# RTN_INT2$/} on && \$2 == 8 {found = sprintf(\"%.6f\", \$3) == want} END {exit !found}' '$work/a/drift.tsv'"
# The dash pattern of a curve is that of its method's place, by name, among all methods of its family.
cat >"$work/dashes.awk" <<'AWK'
FNR == 1 {file++}
file == 1 {split($0, f, "\t"); if (FNR == 1) for (i in f) at[f[i]] = i; else family[f[at["method"]]] = f[at["family"]]; next}
file == 2 && /^# [A-Z]/ {k = family[substr($0, 3)]; rank[n_curves++] = seen[k]++; next}
file == 3 && / with lines / && / lw 2 / {
    match($0, /index [0-9]+/); i = substr($0, RSTART + 6, RLENGTH - 6); match($0, / dt [0-9]/)
    n++; bad += substr($0, RSTART + 4, 1) != substr("12435", rank[i] % 5 + 1, 1); dashed += rank[i] > 0
}
END {exit !(n && dashed && !bad)}
AWK
check "a curve's dash pattern depends on its method, not on the other labelled methods" \
    awk -f "$work/dashes.awk" "$work/a/pareto.tsv" "$work/a/drift.tsv" "$work/a/drift.gp"
check "the ticks of forward passes are integers" bash -c "! grep -E '^set xtics .*[.]' '$work/a/memory_trace.gp' && grep -q '^set xtics 0, [0-9]*, ' '$work/a/memory_trace.gp'"
check "the legend of memory_trace has a square in each tag's colour" test "$(grep -c "^set label .* '' at .* point pt 5 .*#" "$work/a/memory_trace.gp")" = 5
exits 2 "plot refuses an unknown figure" plot drfit --db "$work/p.db" -o "$work/a"
says "the error suggests drift" "did you mean 'drift'"
exits 2 "plot mass_shift needs probe cells" plot mass_shift --db "$work/p.db" -o "$work/a"

# Figures have confidence intervals by default, equal to those of `kvreel report --table intervals`.
exits 0 "the Pareto figure again" plot pareto --db "$work/p.db" -o "$work/a" --format svg
column() { awk -F '\t' -v name="$2" -v method="$3" 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next}
    $at["method"] == method {print $at[name]}' "$1"; }
"$kvreel" report --db "$work/p.db" --table intervals --format json >"$work/intervals.json" 2>/dev/null
for end in lo hi; do
    got=$(column "$work/a/pareto.tsv" y_$end RTN_INT2)
    want=$(jq -r ".[] | select(.method == \"RTN_INT2\") | .ssim_$end" "$work/intervals.json")
    check "y_$end is the table's: $got, $want" awk -v a="$got" -v b="$want" 'BEGIN {exit !(a != "" && (a - b) ^ 2 < 1e-14)}'
done
# Only the suite with two prompts has an interval. It equals the interval that a query computes.
exits 0 "the figure of suites again" plot suites --db "$work/p.db" -o "$work/a" --format svg
for end in lo hi; do
    got=$(column "$work/a/suites.tsv" x_$end RTN_INT2)
    want=$("$kvreel" query --db "$work/p.db" --json "SELECT mean_$end(ssim) AS v FROM cells_wide
        WHERE method = 'RTN_INT2' AND suite = 'moviegen-nano' AND run_kind = 'bench' AND jitter = 0" 2>/dev/null | jq '.[].v')
    check "suites: x_$end is the interval over prompts: $got, $want" \
        awk -v a="$got" -v b="$want" 'BEGIN {exit !(a != "" && (a - (b > 1 ? 1 : b)) ^ 2 < 1e-14)}'
    check "suites: a suite with one prompt has no y_$end" test -z "$(column "$work/a/suites.tsv" y_$end RTN_INT2)"
done
check "the axes of suites name their suites" grep -q "^set xlabel .*SSIM on moviegen-nano" "$work/a/suites.gp"
check "suites has the line of equal values" grep -q '^\$same <<' "$work/a/suites.gp"
for name in drift drift_psnr; do
    check "no band of $name exceeds the maximum of its metric" \
        awk -v most="$([ $name = drift ] && echo 1 || echo 100)" '!/^#/ && NF >= 5 {n++; bad += $5 != "NaN" && $5 > most} END {exit !(n && !bad)}' "$work/a/$name.tsv"
done
check "no interval of SSIM exceeds 1" jq -e 'map(.ssim_hi // 1) | max <= 1' "$work/intervals.json"
check "the Pareto figure has error bars" grep -q 'with yerrorbars' "$work/a/pareto.gp"
exits 0 "plot pareto --bars none" plot pareto --db "$work/p.db" -o "$work/nobars" --format svg --bars none
check "--bars none draws no error bars" bash -c "! grep -q errorbars '$work/nobars/pareto.gp'"
exits 2 "plot refuses an unknown kind of bars" plot pareto --db "$work/p.db" -o "$work/a" --bars sd
# Points of the study's versions (NAME@study) are hollow. A family's colour does not depend on the other methods in
# the figure.
filled=$(column "$work/a/pareto.tsv" point_type RTN_INT4)
check "the point of RTN_INT4@study is the hollow form of that of RTN_INT4" test "$(column "$work/a/pareto.tsv" point_type RTN_INT4@study)" -eq $((filled - 1))
exits 0 "a figure with --where" plot pareto --db "$work/p.db" -o "$work/some" --format svg --where "family = 'SPATIAL' OR is_baseline"
check "the figure has only the selected methods" test "$(wc -l <"$work/some/pareto.tsv")" -eq 3
name=SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2
check "the selected method keeps its colour" test "$(column "$work/some/pareto.tsv" colour $name)" = "$(column "$work/a/pareto.tsv" colour $name)"
check "the caption has the condition" grep -q "^set label 1001.*SPATIAL" "$work/some/pareto.gp"
check "the caption omits settings with default values" bash -c "! grep -qE 'jitter_bits|warmup' '$work/a/pareto.gp'"
exits 0 "one suite's curves" plot drift --db "$work/p.db" -o "$work/some" --format svg --where "suite = 'storyeval-nano'"
check "curves of one prompt have no interval" bash -c "awk '\$2 == 8 {n++; bad += \$4 != \"NaN\"} END {exit !(n && !bad)}' '$work/some/drift.tsv'"
exits 0 "prefill curves of one prompt" plot prefill --db "$work/texts.db" -o "$work/some" --format svg
check "prefill curves of one prompt have no error bars" bash -c "grep -q 'thin: \|n = 1' '$work/some/prefill.gp' && ! grep -q errorbars '$work/some/prefill.gp'"
exits 2 "plot refuses an invalid condition" plot pareto --db "$work/p.db" -o "$work/some" --where 'nonsense = 1'
says "the error says that the condition is invalid" 'not a valid SQL condition'
exits 2 "plot refuses two SQL statements" plot pareto --db "$work/p.db" -o "$work/some" --where '1); DROP TABLE cell; --'
check "no table was dropped" test "$(sql "$work/p.db" 'SELECT count(*) > 0 FROM cell')" = 1
# Options --metric, --x and --y select other metrics for the axes.
exits 0 "a Pareto figure with --metric psnr" plot pareto --db "$work/p.db" -o "$work/xy" --format svg --metric psnr --x runtime_s
check "its y axis has PSNR" test "$(column "$work/xy/pareto-psnr-against-runtime_s.tsv" y RTN_INT2)" = "$(column "$work/xy/pareto-psnr-against-runtime_s.tsv" psnr_db RTN_INT2)"
exits 0 "a Pareto figure with its own axes" plot pareto --db "$work/p.db" -o "$work/xy" --format svg --y ssim --x compression
check "figures of two metrics have their own files" bash -c "cmp '$work/xy/pareto.tsv' '$work/a/pareto.tsv' && grep -q psnr_db '$work/xy/pareto-psnr-against-runtime_s.tsv'"
prints "the output names the files" 'xy/pareto: 1 figure'
exits 0 "a figure of PSNR" plot pareto --db "$work/p.db" -o "$work/xy" --format svg --y psnr
prints "the output names the files with the metric" 'xy/pareto-psnr: 1 figure'
check "the script reads its own data" grep -qF "data = 'pareto-psnr.tsv'" "$work/xy/pareto-psnr.gp"
exits 2 "plot refuses an unknown metric" plot pareto --db "$work/p.db" -o "$work/xy" --y beauty
says "the error lists each metric once" "unknown metric 'beauty'; need one of compression, bits, runtime_s, peak_bytes, ssim, psnr(, [a-z_.0-9]+)*\$"
check "the list has one name per metric" bash -c "! grep -oE '[a-z_0-9.]+' '$err' | sort | uniq -d | grep -xE 'ssim|psnr|psnr_db'"
exits 2 "plot refuses a metric without values" plot pareto --db "$work/p.db" -o "$work/xy" --y lpips
says "the error names the command that computes the metric" "p.db has no values of metric lpips; .kvreel score lpips --db .*p.db."
exits 2 "plot drift refuses an unknown metric" plot drift --db "$work/p.db" -o "$work/xy" --metric beauty
exits 0 "plot drift --metric psnr" plot drift --db "$work/p.db" -o "$work/xy" --format svg --metric psnr
check "drift with --metric psnr equals figure drift_psnr" bash -c "cmp <(sed 1d '$work/xy/drift-psnr.tsv') <(sed 1d '$work/a/drift_psnr.tsv')"
exits 0 "plot drift --metric ssim" plot drift --db "$work/p.db" -o "$work/xy" --format svg --metric ssim
check "figures of two metrics frame by frame have their own files" cmp "$work/xy/drift.tsv" "$work/a/drift.tsv"
exits 2 "plot kv_bytes refuses --y" plot kv_bytes --db "$work/p.db" -o "$work/xy" --y psnr
# Figures for papers have the requested width and no text below 7 points.
for name in pareto drift kv_bytes memory_trace suites; do
    for preset in single double; do
        exits 0 "$name for paper, $preset" plot "$name" --db "$work/p.db" -o "$work/$preset" --format svg,pdf --preset $preset --title "A title"
        check "$name, $preset: the figure has its title" grep -q "A title" "$work/$preset/$name.gp"
        command -v gnuplot >/dev/null || continue
        want=321
        [ $preset = double ] && want=673
        check "$name, $preset: the figure is $want units wide" grep -q "viewBox=\"0 0 $want " "$work/$preset/$name.svg"
        check "$name, $preset: no text is smaller than 7 points" awk -v n=0 '{while (match($0, /font-size="[0-9.]+"/)) {v = substr($0, RSTART + 11, RLENGTH - 12) * 0.75; n++;
            if (v < 6.99) bad = v; $0 = substr($0, RSTART + RLENGTH)}} END {exit !(n > 5 && !bad)}' "$work/$preset/$name.svg"
    done
done
exits 0 "a figure with --width 85mm" plot pareto --db "$work/p.db" -o "$work/wide" --format svg --width 85mm --title '' --font-size 9
check "the figure has the width of preset single, and no title" bash -c "cmp <(grep 'viewBox' '$work/single/pareto.svg' | grep -o '0 0 [0-9]*') <(grep viewBox '$work/wide/pareto.svg' | grep -o '0 0 [0-9]*') && ! grep -q 'Compression against' '$work/wide/pareto.gp'"
exits 2 "plot refuses an unknown unit of length" plot pareto --db "$work/p.db" -o "$work/wide" --width 85furlongs
# Confidence bands do not extend beyond the axis.
check "drift clips its bands to the axis" grep -qF 'iny($' "$work/a/drift.gp"
