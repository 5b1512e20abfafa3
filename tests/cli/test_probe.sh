#!/usr/bin/env bash
# Cells of kind probe compare the attention of the bundled model with attention over a BF16 cache. The test covers
# methods with two-bit keys, from a config to the report's tables.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml" 12
cd "$work" || exit 1
run=(run tiny.yaml --db t.db --out o --jobs 2 -s baselines=none -s control=0 \
    -s 'methods=[KIVI_INT2, KIVI_INT2+taylor, RTN_INT4]')

exits 2 "an unknown kind of run is refused" "${run[@]}" -s kind=prob
says "the error suggests probe" "did you mean 'probe'"
exits 0 "a sweep of kinds bench and probe" "${run[@]}" -s 'kind=[bench, probe]' -s probe_every=2 --json
json "each method and prompt has a timed and a probed cell" '.cells == 16 and .ok == 16'
exits 0 "--table probes" report --db t.db --table probes --format json
json "the table has a row per method" '[.[].method] == ["BF16", "KIVI_INT2", "KIVI_INT2+taylor", "RTN_INT4"]'
json "BF16 does not differ from itself" \
    '.[0] | .delta_a == 0 and .jsd == 0 and .attn_out_rel == 0 and .top1_agreement == 1'
json "asymmetric two-bit keys shift attention by more than 0.005" '.[1].delta_a > 0.005'
json "the correction lowers the shift, in the mean and in the median head" \
    '(.[2].delta_a | fabs) < .[1].delta_a and
     (.[2].delta_a_median | fabs) < .[1].delta_a_median / 2'
json "four bits do less harm than two" \
    '.[3].jsd < .[1].jsd / 4 and .[3].k_rel_error < .[1].k_rel_error'
exits 0 "--table probes_by_layer" report --db t.db --table probes_by_layer --format json
json "a row per method and layer" 'length == 24'
exits 0 "--table probes_by_age" report --db t.db --table probes_by_age --format json
json "ages from one chunk back to three" '[.[].age] | unique == [1, 2, 3]'
exits 0 "the summary" query --db t.db --json 'SELECT n_ok, runtime_s FROM summary'
json "the summary counts only timed cells" 'length == 4 and all(.[]; .n_ok == 2)'
check "a probe stores fewer than 5000 numbers per cell" \
    test "$(sql t.db 'SELECT max(n) FROM (SELECT count(*) AS n FROM probe GROUP BY cell)')" -lt 5000

# The study's sweep has cells of both kinds. The 144 cells of kind probe are 33 methods in two versions and six
# automatic baselines, on one prompt of each of two suites.
for part in probe:144 bench:1776; do
    exits 0 "a dry run of study33, cells of kind ${part%:*}" run "$root/configs/study33.yaml" --dry-run --json \
        --db "$work/none.db" --filter "kind=${part%:*}"
    json "there are ${part#*:} cells of kind ${part%:*}" ".to_run == ${part#*:}"
done
