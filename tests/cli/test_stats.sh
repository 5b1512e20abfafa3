#!/usr/bin/env bash
# stats and merge on a sweep that ran in two shards.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
mkdir shards

# The shards are divided by prompt: with so few cells, --shard 0/2 could contain all of them.
exits 0 "the shard of prompt red runs" run tiny.yaml --db shards/s0.db --out o --filter prompt=red -q
exits 0 "the shard of prompt green runs" run tiny.yaml --db shards/s1.db --out o --filter prompt=green -q
exits 0 "merge accepts a folder of shards" merge shards -o all.db --json
json "merge adds six cells from two shards" '.merged == 2 and ([.shards[].added] | add) == 6 and .conflicts == 0'
before=$(sql all.db 'SELECT * FROM cell ORDER BY key; SELECT * FROM metric ORDER BY 1, 2')
exits 0 "a second merge of the same shards runs" merge shards shards/s1.db -o all.db --json
json "the second merge adds and replaces no cell" '[.shards[] | .added + .replaced] | add == 0'
check "the second merge leaves cells and metrics unchanged" test "$before" = \
    "$(sql all.db 'SELECT * FROM cell ORDER BY key; SELECT * FROM metric ORDER BY 1, 2')"
exits 0 "run accepts the merged database" \
    run tiny.yaml --db all.db --out o --json
json "run finds all six cells in the merged database" '.ok == 0 and .done_before == 6'

head -c 2000 shards/s1.db >cut.db
exits 2 "merge of a damaged and an intact shard exits with 2" merge cut.db shards/s0.db -o some.db --json
json "merge joins only the intact shard" '.merged == 1 and .failed == 1'
says "the error names the damaged shard" 'cut\.db'
exits 2 "merge refuses a missing shard" merge none.db -o empty.db
check "a failed merge creates no database" test ! -e empty.db
exits 2 "merge refuses two missing shards" merge none.db all.db/none.db -o empty.db
says "the error gives the reason for the first shard" 'input none\.db: No such file or directory; no other input'
exits 2 "merge refuses a database as both input and output" merge all.db -o all.db
exits 2 "merge recognises the output under another path" merge all.db -o ./all.db
says "the error says that the database is both input and output" 'all.db is both an input and the output .-o ./all.db.'
exits 0 "merge of a folder may write its output into that folder" merge shards -o shards/../shards/whole.db --json
json "merge reads the two shards, not its output" '.merged == 2'
rm shards/whole.db
check "merge of folder . may write its output there" bash -c "cd shards && '$kvreel' merge . -o whole.db && rm whole.db"
for command in 'pareto' 'stats paired'; do
    # shellcheck disable=SC2086
    exits 2 "$command: an invalid --where is refused" $command --db all.db --where 'ssim >'
    says "$command: the error quotes the condition" "'ssim >' is not a valid SQL condition on the view (summary|cells_wide): "
done
exits 0 "query prints a blob as CSV" query --db all.db --csv "SELECT x'00ff00' AS b"
prints "CSV output shows a blob's size" '<3 bytes>'
exits 2 "a filter cannot compare with NaN" run tiny.yaml --dry-run --filter 'frames>=nan'

# A copy of the database has other frame hashes for the same cells. merge must keep both attempts of each cell and
# report the conflict.
cp all.db other.db
changed other.db "UPDATE attempt SET frames_sha256 = 'f' || frames_sha256, n = n + 1"
exits 4 "merge of contradicting shards exits with 4" merge other.db -o all.db --json
json "merge reports six conflicts" '.conflicts == 6'
check "merge keeps both attempts of each cell" test "$(sql all.db 'SELECT count(*) FROM attempt')" -eq 12

exits 0 "stats paired against RTN_INT4 runs" stats paired -m ssim --against RTN_INT4 --db all.db --json
json "stats paired lists BF16 first and sorts by tie group" '[.[].tie_group] == ([.[].tie_group] | sort) and .[0].method == "BF16"'
json "each difference of two pairs lies within its interval" \
    'all(.[] | select(.method != "RTN_INT4"); .lo <= .difference and .difference <= .hi and .n_pairs == 2)'
for command in windows growth; do
    exits 0 "stats $command runs" stats $command -m ssim --db all.db --json
    json "stats $command: no interval of SSIM exceeds 1" '[.[] | .hi, .free_hi, .put_in_hi] | map(. // 0) | max <= 1'
done
exits 0 "stats timing runs" stats timing --db all.db --json
json "a single time has a median but no interval" 'all(.[]; .n == 1 and .lo_s == null and .median_s > 0)'
json "phases account for 50 % to 100 % of a cell's time" 'all(.[]; .attributed > 0.5 and .attributed <= 1)'
exits 0 "stats coverage prints CSV" stats coverage --db all.db --format csv
prints "stats coverage shows RTN_INT4 with both prompts measured" '^RTN_INT4,1/1,1/1$'
exits 2 "an unknown stats action is refused" stats mean --db all.db
exits 2 "stats paired refuses an unknown metric" stats paired -m psrn --db all.db
exits 2 "stats paired refuses an unknown reference method" stats paired --against NONE --db all.db

# stats runs compares two databases with the same cells, measured by two commits.
cp all.db then.db
changed then.db "UPDATE metric SET value = value - 0.25 WHERE name = 'ssim' AND cell IN (SELECT key FROM cell WHERE method = 'RTN_INT2')"
changed then.db "UPDATE artifact SET sha256 = '$(printf '%064d' 1)' WHERE kind = 'frames' AND cell IN (SELECT key FROM cell WHERE method = 'RTN_INT2' LIMIT 1)"
changed then.db "PRAGMA foreign_keys = ON; DELETE FROM cell WHERE key = (SELECT max(key) FROM cell WHERE method = 'RTN_INT4')"
changed then.db "UPDATE session SET cpu_model = 'an old one'"
exits 0 "stats runs compares two databases" stats runs --db all.db --before then.db --json
json "BF16: frames equal in both cells, no difference of SSIM" '.[] | select(.method == "BF16") | .same_frames == "2/2" and .difference == 0 and .separable == "the same"'
json "RTN_INT2: frames equal in one of two cells, SSIM differs by 0.25" '.[] | select(.method == "RTN_INT2") | .same_frames == "1/2" and ((.difference - 0.25) | fabs) < 1e-12 and ((.now - .before - 0.25) | fabs) < 1e-12 and .separable != "the same" and .separable != "yes"'
json "RTN_INT4: only the cell of both databases is compared" '.[] | select(.method == "RTN_INT4") | .cells == 1'
exits 0 "stats runs prints text" stats runs --db all.db --before then.db
prints "the text names the older database, its commit and its unmatched cells" '^before: then.db, commit .*an old one; 0 cells are only in this database$'
prints "the text names the newer database" '^now: all.db, .*; 1 cells are only in this database$'
exits 2 "stats runs needs --before" stats runs --db all.db
exits 2 "stats runs refuses a missing --before database" stats runs --db all.db --before gone.db

# Two machines in one database: a machine is identified by a hash of its properties, not by its processor's name.
cp all.db facts.db
changed facts.db "UPDATE about SET value = 'deadbeef' WHERE name = 'machine' AND session = (SELECT session FROM cell LIMIT 1)"
exits 2 "stats paired refuses machines with different hashes" stats paired --db facts.db
says "the error shows the other machine's hash" 'different machines \(.*#deadbeef'
changed all.db "UPDATE session SET cpu_model = 'another' WHERE id = (SELECT session FROM cell LIMIT 1)"
exits 2 "stats paired refuses machines with different CPUs" stats paired --db all.db
says "the error names --across-machines" 'across-machines'
exits 0 "--across-machines compares different machines" stats paired --across-machines --db all.db
check "the view summary keeps two machines apart" test \
    "$(sql all.db 'SELECT count(DISTINCT machine) FROM summary')" -eq 2
