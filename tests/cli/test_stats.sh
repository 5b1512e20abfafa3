#!/usr/bin/env bash
# stats and merge on a sweep that ran in two shards.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
mkdir shards

# The shards are divided by prompt: with so few cells, --shard 0/2 could contain all of them.
exits 0 "one half" run tiny.yaml --db shards/s0.db --out o --filter prompt=red -q
exits 0 "the other" run tiny.yaml --db shards/s1.db --out o --filter prompt=green -q
exits 0 "merge a folder" merge shards -o all.db --json
json "two shards, six cells" '.merged == 2 and ([.shards[].added] | add) == 6 and .conflicts == 0'
before=$(sql all.db 'SELECT * FROM cell ORDER BY key; SELECT * FROM metric ORDER BY 1, 2')
exits 0 "merge again" merge shards shards/s1.db -o all.db --json
json "changes nothing" '[.shards[] | .added + .replaced] | add == 0'
check "the content is as it was" test "$before" = \
    "$(sql all.db 'SELECT * FROM cell ORDER BY key; SELECT * FROM metric ORDER BY 1, 2')"
exits 0 "the merged database is the sweep: nothing is left to run" \
    run tiny.yaml --db all.db --out o --json
json "all done before" '.ok == 0 and .done_before == 6'

head -c 2000 shards/s1.db >cut.db
exits 2 "damaged shards are named, the others joined" merge cut.db shards/s0.db -o some.db --json
json "one joined, one not" '.merged == 1 and .failed == 1'
says "by name" 'cut\.db'
exits 2 "a shard that is not there" merge none.db -o empty.db
check "nothing to join leaves no database" test ! -e empty.db
exits 2 "a database into itself" merge all.db -o all.db
exits 2 "and by another name" merge all.db -o ./all.db
says "says so" 'all.db is both an input and the output .-o ./all.db.'
exits 0 "a folder into a database in it" merge shards -o shards/../shards/whole.db --json
json "takes the others" '.merged == 2'
rm shards/whole.db
check "also as the folder that one is in" bash -c "cd shards && '$kvreel' merge . -o whole.db && rm whole.db"
for command in 'pareto' 'stats paired'; do
    # shellcheck disable=SC2086
    exits 2 "$command: a condition that is none" $command --db all.db --where 'ssim >'
    says "is quoted" "'ssim >' is not a valid SQL condition on the view (summary|cells_wide): "
done
exits 0 "bytes in a query" query --db all.db --csv "SELECT x'00ff00' AS b"
prints "are counted" '<3 bytes>'
exits 2 "no number to compare with" run tiny.yaml --dry-run --filter 'frames>=nan'

# Another database has the same cells with other frames: both attempts are kept, and the conflict is reported.
cp all.db other.db
changed other.db "UPDATE attempt SET frames_sha256 = 'f' || frames_sha256, n = n + 1"
exits 4 "contradicting shards" merge other.db -o all.db --json
json "are counted" '.conflicts == 6'
check "and both kept" test "$(sql all.db 'SELECT count(*) FROM attempt')" -eq 12

exits 0 "stats paired" stats paired -m ssim --against RTN_INT4 --db all.db --json
json "the best is first" '[.[].tie_group] == ([.[].tie_group] | sort) and .[0].method == "BF16"'
json "an interval around each difference" \
    'all(.[] | select(.method != "RTN_INT4"); .lo <= .difference and .difference <= .hi and .n_pairs == 2)'
for command in windows growth; do
    exits 0 "stats $command" stats $command -m ssim --db all.db --json
    json "no interval goes beyond what an SSIM can be" '[.[] | .hi, .free_hi, .put_in_hi] | map(. // 0) | max <= 1'
done
exits 0 "stats timing" stats timing --db all.db --json
json "one sample has no interval" 'all(.[]; .n == 1 and .lo_s == null and .median_s > 0)'
json "phases explain the time" 'all(.[]; .attributed > 0.5 and .attributed <= 1)'
exits 0 "stats coverage" stats coverage --db all.db --format csv
prints "a row per method" '^RTN_INT4,1/1,1/1$'
exits 2 "stats of nothing known" stats mean --db all.db
exits 2 "an unknown metric" stats paired -m psrn --db all.db
exits 2 "an unknown method to compare with" stats paired --against NONE --db all.db

# stats runs compares two databases with the same cells, measured by two commits.
cp all.db then.db
changed then.db "UPDATE metric SET value = value - 0.25 WHERE name = 'ssim' AND cell IN (SELECT key FROM cell WHERE method = 'RTN_INT2')"
changed then.db "UPDATE artifact SET sha256 = '$(printf '%064d' 1)' WHERE kind = 'frames' AND cell IN (SELECT key FROM cell WHERE method = 'RTN_INT2' LIMIT 1)"
changed then.db "PRAGMA foreign_keys = ON; DELETE FROM cell WHERE key = (SELECT max(key) FROM cell WHERE method = 'RTN_INT4')"
changed then.db "UPDATE session SET cpu_model = 'an old one'"
exits 0 "stats runs" stats runs --db all.db --before then.db --json
json "of cells that did not change says so" '.[] | select(.method == "BF16") | .same_frames == "2/2" and .difference == 0 and .separable == "the same"'
json "pairs those that did" '.[] | select(.method == "RTN_INT2") | .same_frames == "1/2" and ((.difference - 0.25) | fabs) < 1e-12 and ((.now - .before - 0.25) | fabs) < 1e-12 and .separable != "the same" and .separable != "yes"'
json "leaves out what one of them has not" '.[] | select(.method == "RTN_INT4") | .cells == 1'
exits 0 "as text" stats runs --db all.db --before then.db
prints "it says who measured what" 'before: then.db, commit .*an old one; 0 cells are only in this database, now: all.db, .*; 1 cells are only in this database'
exits 2 "without the other one" stats runs --db all.db
exits 2 "with one that is not there" stats runs --db all.db --before gone.db

# Two machines in one database: a machine is identified by a hash of its properties, not by its processor's name.
cp all.db facts.db
changed facts.db "UPDATE about SET value = 'deadbeef' WHERE name = 'machine' AND session = (SELECT session FROM cell LIMIT 1)"
exits 2 "one with other facts is another" stats paired --db facts.db
says "and is named" 'different machines \(.*#deadbeef'
changed all.db "UPDATE session SET cpu_model = 'another' WHERE id = (SELECT session FROM cell LIMIT 1)"
exits 2 "unlike machines are not compared" stats paired --db all.db
says "unless asked" 'across-machines'
exits 0 "when asked they are" stats paired --across-machines --db all.db
check "the summary keeps them apart" test \
    "$(sql all.db 'SELECT count(DISTINCT machine) FROM summary')" -eq 2
