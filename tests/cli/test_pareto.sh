#!/usr/bin/env bash
# Pareto fronts: the four fronts that the study published, computed from its figures, and fronts of a sweep over
# given objectives.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

front() { # SUITE FRONTIER: prints the front's methods, sorted, on one line
    "$kvreel" pareto --published "$1" --objectives "$2" --front --json | jq -r '[.[].method] | sort | join(" ")'
}
members() { # NAME SUITE FRONTIER MEMBER...: checks that the front has exactly these members
    local name=$1 suite=$2 frontier=$3
    shift 3
    check "$name" test "$(front "$suite" "$frontier")" = "$(printf '%s\n' "$@" | LC_ALL=C sort | paste -sd' ')"
}
compression="BF16 FLOWCACHE_PRUNE_INT2 FLOWCACHE_PRUNE_INT4 FLOWCACHE_SOFT_PRUNE_INT2
    FLOWCACHE_SOFT_PRUNE_INT4 PRQ_INT2 PRQ_INT4 QUAROT_KV_INT4 RTN_INT4_RECENT2"
systems="BF16 FLOWCACHE_NATIVE FLOWCACHE_NATIVE_SOFT_PRUNE_INT4 FLOWCACHE_PRUNE_INT2"
balanced="AGE_TIER_INT4 FLOWCACHE_NATIVE FLOWCACHE_NATIVE_SOFT_PRUNE_INT4 RTN_INT4 RTN_INT4_REFRESH $compression"
# shellcheck disable=SC2086 # lists of names
for suite in moviegen storyeval; do
    members "the study's front for compression, $suite" $suite compression $compression
    members "the study's front for systems, $suite" $suite systems $systems
done
# shellcheck disable=SC2086
members "the study's balanced front, moviegen" moviegen balanced $balanced KIVI_INT4_REFRESH
# shellcheck disable=SC2086
members "the study's balanced front, storyeval" storyeval balanced $balanced
members "the study's front for quality, moviegen" moviegen quality BF16 FLOWCACHE_NATIVE PRQ_INT2
members "the study's front for quality, storyeval" storyeval quality BF16 FLOWCACHE_NATIVE PRQ_INT2 PRQ_INT4

tiny_config "$work/tiny.yaml"
shared_sweep "$work/tiny.yaml" "$work/t.db" "$work/out"
exits 0 "fidelity against compression" pareto --db "$work/t.db" --json
json "with two prompts, only the smallest cache is decided" \
    '[.[] | .method + " " + .verdict] == ["RTN_INT2 front", "BF16 undecided", "RTN_INT4 undecided"]'
json "undecided methods say how many prompts are needed" 'all(.[] | select(.verdict == "undecided"); .why | test("may dominate this method: 4 more prompts are needed"))'
exits 0 "a front over compression alone" pareto --db "$work/t.db" --objectives compression:max --json
json "the front has one method, and the others have a reason" \
    '([.[] | select(.verdict == "front") | .method] == ["RTN_INT2"]) and
     ([.[] | select(.verdict == "dominated") | .dominated_by == "RTN_INT2" and (.why | test("compression .* instead of"))] | all)'
exits 0 "a front with --where" pareto --db "$work/t.db" --objectives compression:max \
    --where 'compression < 4 AND ssim > 0' --json
json "without RTN_INT2, RTN_INT4 is on the front" '[.[] | select(.verdict == "front") | .method] == ["RTN_INT4"] and length == 2'
# A method whose error exceeds the bound does not dominate others. RTN_INT2 has the smallest cache and larger
# errors.
worst=$(sql "$work/t.db" "SELECT max(psnr_db) + 0.01 FROM summary WHERE method = 'RTN_INT2'")
exits 0 "a front with --bound" pareto --db "$work/t.db" --objectives compression:max --bound "psnr_db>=$worst,ssim>=-1" --json
json "a method beyond the bound dominates none" '[.[] | .method + " " + .verdict] == ["RTN_INT4 front", "BF16 dominated", "RTN_INT2 beyond"]'
json "the method beyond the bound has a reason" '.[2] | .dominated_by == null and (.why | test("^psnr_db [0-9.]+, need at least [0-9.]+$"))'
exits 0 "a front with --bound prints text" pareto --db "$work/t.db" --objectives compression:max --bound "psnr_db>=$worst" --front
prints "the text has the bound and the number of excluded methods" 'bounds: psnr_db at least [0-9.]+; excluded, as outside the bounds: 1'
prints "the column heads say what is better" '^method .*compression \(higher is better\) +P\(front\)'
prints "the note counts methods by verdict" '^of [0-9]+ methods, on the Pareto front: 1, undecided: 0, dominated: 1; .*P\(front\): fraction of'
exits 0 "a front with a bound on a metric without values" pareto --db "$work/t.db" --objectives compression:max --bound 'colour_drift<=0' --json
json "a method without the bounded metric is beyond the bound" 'any(.[]; .verdict == "beyond")'
exits 0 "the published front for systems with a bound on SSIM" pareto --published moviegen --objectives systems --bound 'ssim>=0.8' --json
json "more than three methods with a low SSIM are beyond the bound" '[.[] | select(.verdict == "beyond")] | length > 3 and all(.[]; .why | test("^ssim 0"))'
for bad in ssim 'ssim>0.5' 'ssim>=' 'ssim>=x' 'ssim>=nan' '>=1' 'ssim=0.5' 'ssimm>=0.5' 'ssim>=1,'{a,b,c,d}'>=1'; do
    exits 2 "bound '$bad' is refused" pareto --db "$work/t.db" --bound "$bad"
done
exits 0 "a figure with a bound" plot pareto --db "$work/t.db" -o "$work/bound" --format svg --bound "psnr_db>=$worst"
check "the figure has RTN_INT2 beyond the bound and off the front" test "$(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["verdict"] == "beyond" { print $at["method"], $at["front"] }' "$work/bound/pareto.tsv")" = "RTN_INT2 0"
check "the figure names the bound" grep -q "front requires psnr_db>=$worst" "$work/bound/pareto.gp"
exits 0 "a front with objectives that were not measured" pareto --db "$work/t.db" --objectives balanced
prints "the message names the omitted objectives" 'omitted, not measured: lpips, drift_last'
exits 2 "an objective without a direction is refused" pareto --db "$work/t.db" --objectives ssim
says "the error has the syntax of an objective" "'ssim': need NAME:max or NAME:min"
exits 2 "an objective with SQL is refused" pareto --db "$work/t.db" --objectives "ssim' OR 1:max"
exits 2 "a condition that no method meets is refused" pareto --db "$work/t.db" --where 'compression > 100'
exits 2 "an unknown objective" pareto --db "$work/t.db" --objectives ssimm:max
says "the error lists the objectives" "unknown objective 'ssimm'; need one of compression, .*ssim.*psnr"
exits 2 "an unknown objective of published figures" pareto --published moviegen --objectives sim:max
says "the error lists the published objectives" "unknown objective 'sim'; .*drift_last"
exits 2 "a margin of a metric that is no objective" pareto --db "$work/t.db" --margin psnr=1
says "the error lists the objectives of the front" "'psnr': this name is not one of the objectives \(ssim, compression"
for bad in ssim ssim= ssim=-1 ssim=x ssim=nan =1; do
    exits 2 "margin '$bad' is refused" pareto --db "$work/t.db" --margin "$bad"
done

# The test sets SSIM on twelve prompts. Relative to RTN_INT4, FLAT loses 0.1 on each prompt and takes the same bytes.
# NEAR and WILD take half the bytes; their SSIM varies around RTN_INT4's by 0.001 (NEAR) and 0.1 (WILD).
cp "$work/t.db" "$work/p.db"
stored=$(sqlite3 "$work/p.db" "SELECT group_concat(name) FROM pragma_table_info('cell')")
changed "$work/p.db" "
CREATE TABLE one AS SELECT $stored FROM cell WHERE prompt_id = 'red' AND method = 'RTN_INT4';
CREATE TABLE m AS SELECT * FROM metric WHERE cell IN (SELECT key FROM one) AND name = 'ssim';
DELETE FROM attempt;
PRAGMA foreign_keys = ON;
DELETE FROM cell;
PRAGMA foreign_keys = OFF;
CREATE TABLE n AS WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 11) SELECT i FROM n;
CREATE TABLE who(method, shift, noise, bytes);
INSERT INTO who VALUES ('RTN_INT4', 0, 0, 1), ('FLAT', -0.1, 0.001, 1), ('NEAR', 0, 0.001, 0.5), ('WILD', 0, 0.1, 0.5);
CREATE TABLE x AS SELECT one.*, who.method AS w, shift, noise, bytes, i FROM one, who, n;
UPDATE x SET key = w || i, rollout = w || i, method = w, prompt_id = 'p' || i, nominal_bytes = nominal_bytes * bytes;
INSERT INTO metric SELECT x.key, m.name, 0.8 + 0.01 * i + shift + noise * (i % 2 * 2 - 1) * (1 + 0.1 * (i % 3)),
    m.unit, m.n, m.extra, m.missing FROM x, m;
ALTER TABLE x DROP COLUMN w; ALTER TABLE x DROP COLUMN shift; ALTER TABLE x DROP COLUMN noise;
ALTER TABLE x DROP COLUMN bytes; ALTER TABLE x DROP COLUMN i;
INSERT INTO cell ($stored) SELECT * FROM x;
DROP TABLE one; DROP TABLE m; DROP TABLE n; DROP TABLE who; DROP TABLE x"
verdict() { # NAME FILTER ARGS...
    local name=$1 filter=$2
    shift 2
    exits 0 "$name: pareto $*" pareto --db "$work/p.db" --json "$@"
    json "$name" "$filter"
}
of='(map({(.method): .verdict}) | add) as $v |'
verdict "FLAT is dominated, RTN_INT4 and NEAR are undecided" \
    "$of"' $v.FLAT == "dominated" and $v.RTN_INT4 == "undecided" and $v.NEAR == "undecided"'
json "each method has a probability of being on the front" \
    'all(.[]; .p_front >= 0 and .p_front <= 1) and (.[] | select(.method == "FLAT") | .p_front) == 0'
verdict "within a margin of 0.01, NEAR dominates RTN_INT4, and WILD dominates none" \
    "$of"' $v.RTN_INT4 == "dominated" and $v.NEAR != "dominated" and ([.[].dominated_by] | index("WILD")) == null' \
    --margin ssim=0.01
json "RTN_INT4 names NEAR and the reason" \
    'any(.[]; .method == "RTN_INT4" and .dominated_by == "NEAR" and (.why | test("compression .* instead of")))'
verdict "within a margin of 0.2, the two small caches are the front" \
    "$of"' $v == {"NEAR": "front", "WILD": "front", "RTN_INT4": "dominated", "FLAT": "dominated"}' --margin ssim=0.2
# The figure fades exactly the methods whose verdict is dominated.
exits 0 "the Pareto figure of four methods" plot pareto --db "$work/p.db" -o "$work/fig" --format svg
faded() { # prints the faded methods, and those with the verdict
    awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["front"] == 0 { print "pale", $at["method"] }
        $at["verdict"] == "dominated" { print "dominated", $at["method"] }' "$work/fig/pareto.tsv"
}
check "the figure fades FLAT alone" test "$(faded | sort | paste -sd' ')" = "dominated FLAT pale FLAT"
exits 0 "the figure of three methods" plot pareto --db "$work/t.db" -o "$work/fig" --format svg
check "the figure says that it is a front of means" grep -q "front of the means" "$work/fig/pareto.gp"
# The HTML page computes the same front in JavaScript.
if has node "the page's front"; then
    exits 0 "the page of twelve prompts" report --db "$work/p.db" --media "$work/out" -o "$work/page"
    for margin in 0 0.01 0.2; do
        exits 0 "pareto with margin $margin" pareto --db "$work/p.db" --json --margin ssim=$margin
        check "the page has the same front with margin $margin" node "$root/tests/cli/page_numbers.js" "$work/page/index.html" $margin "$out"
    done
    exits 0 "pareto with a bound" pareto --db "$work/p.db" --json --margin ssim=0 --bound 'ssim>=0.8'
    json "FLAT is beyond the bound" '[.[] | select(.verdict == "beyond") | .method] == ["FLAT"]'
    check "the page has the same front with a bound" node "$root/tests/cli/page_numbers.js" "$work/page/index.html" 0 "$out" 'ssim>=0.8'
fi
# Repeats of a prompt do not increase n, which is the number of prompts.
for i in 1 2 3; do
    changed "$work/p.db" "CREATE TABLE x AS SELECT $stored FROM cell WHERE prompt_id = 'p0' AND key NOT LIKE '%r_';
    CREATE TABLE m AS SELECT * FROM metric WHERE cell IN (SELECT key FROM x);
    UPDATE x SET key = key || 'r$i', repeat = $i; UPDATE m SET cell = cell || 'r$i';
    INSERT INTO cell ($stored) SELECT * FROM x; INSERT INTO metric SELECT * FROM m; DROP TABLE x; DROP TABLE m"
done
exits 0 "stats paired" stats paired --db "$work/p.db" --against RTN_INT4 --json
json "three repeats of a prompt do not increase n" 'all(.[]; .n == 12 and .n_pairs == 12)'
json "FLAT is separable, NEAR and WILD are not" \
    '(map({(.method): .separable}) | add) == {"RTN_INT4": "", "FLAT": "yes", "NEAR": "no", "WILD": "no"} or
     (map({(.method): .separable}) | add) == {"RTN_INT4": null, "FLAT": "yes", "NEAR": "no", "WILD": "no"}'
json "Holm's correction multiplies the smallest p by three" '.[] | select(.method == "FLAT") | (.p_holm - 3 * .p | fabs) < 1e-12 and .p_better < 0.001'
exits 0 "the summary with intervals" report --db "$work/p.db" -t intervals -f json
json "FLAT does not tie, NEAR and WILD tie with RTN_INT4" \
    '(map({(.method): .tie}) | add) as $t | $t.NEAR == "a" and $t.WILD == "a" and $t.RTN_INT4 == "a" and $t.FLAT == "b"'
changed "$work/p.db" "DELETE FROM metric WHERE cell IN (SELECT key FROM cell WHERE prompt_id NOT IN ('p0', 'p1', 'p2', 'p3', 'p4')); "
exits 0 "stats paired with five prompts" stats paired --db "$work/p.db" --against RTN_INT4 --json
json "nothing is separable, and two more are needed for three comparisons" \
    'all(.[] | select(.method != "RTN_INT4"); .separable == "needs 2 more pairs" and .n_pairs == 5)'
exits 0 "the front of five prompts" pareto --db "$work/p.db" --json
json "the front says how many prompts are missing" 'any(.[]; .why != null and (.why | test("1 more prompt is needed")))'
exits 2 "stats refuses an unknown unit" stats paired --db "$work/p.db" --unit cell
