#!/usr/bin/env bash
# Probes of the bundled model's attention with two-bit keys, from a config to a table.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml" 12
cd "$work" || exit 1
run=(run tiny.yaml --db t.db --out o --jobs 2 -s baselines=none -s 'methods=[KIVI_INT2, KIVI_INT2+taylor, RTN_INT4]')

exits 2 "a kind of run there is not" "${run[@]}" -s kind=prob
says "names the one that is near" "did you mean 'probe'"
exits 0 "probes" "${run[@]}" -s 'kind=[bench, probe]' -s probe_every=2 --json
json "every cell twice, timed and probed" '.cells == 16 and .ok == 16'
exits 0 "--table probes" report --db t.db --table probes --format json
json "a row per method" '[.[].method] == ["BF16", "KIVI_INT2", "KIVI_INT2+taylor", "RTN_INT4"]'
json "BF16 is no different from itself" \
    '.[0] | .delta_a == 0 and .jsd == 0 and .attn_out_rel == 0 and .top1_agreement == 1'
json "asymmetric two-bit keys steal attention" '.[1].delta_a > 0.005'
json "the correction brings it nearer zero, in the mean and in the median head" \
    '(.[2].delta_a | fabs) < .[1].delta_a and
     (.[2].delta_a_median | fabs) < .[1].delta_a_median / 2'
json "four bits do less harm than two" \
    '.[3].jsd < .[1].jsd / 4 and .[3].k_rel_error < .[1].k_rel_error'
exits 0 "--table probes_by_layer" report --db t.db --table probes_by_layer --format json
json "a row per method and layer" 'length == 24'
exits 0 "--table probes_by_age" report --db t.db --table probes_by_age --format json
json "ages from one chunk back to three" '[.[].age] | unique == [1, 2, 3]'
exits 0 "the summary" query --db t.db --json 'SELECT n_ok, runtime_s FROM summary'
json "the summary counts timed cells alone" 'length == 4 and all(.[]; .n_ok == 2)'
check "some thousands of numbers a cell at most" \
    test "$(sql t.db 'SELECT max(n) FROM (SELECT count(*) AS n FROM probe GROUP BY cell)')" -lt 5000

# The study's sweep has cells of both kinds, bench and probe: every method and reading and six automatic baselines,
# on one prompt per suite.
for part in probe:144 bench:1776; do
    exits 0 "study33, ${part%:*}" run "$root/configs/study33.yaml" --dry-run --json \
        --db "$work/none.db" --filter "kind=${part%:*}"
    json "${part#*:} cells" ".to_run == ${part#*:}"
done
