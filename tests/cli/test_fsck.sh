#!/usr/bin/env bash
# kvreel refuses a damaged database and names the damaged cell, sweep or table. fsck -o saves the intact rows.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/shared.db" "$work/out"
exits 0 "merge copies the database of a sweep" merge "$work/shared.db" -o "$work/p.db"
n=$(sql "$work/p.db" 'SELECT count(*) FROM cell')
exits 0 "fsck accepts the database" fsck "$work/p.db" --json
json "fsck checks every cell" ".problems == 0 and .checksums and .cells == $n and .lost_cells == 0"
json "fsck checks the plan" '.sweeps == 1 and .lost_sweeps == 0'
exits 0 "query --check accepts the database" query --check --db "$work/p.db" 'SELECT count(*) FROM cell'

sqlite3 "$work/p.db" "UPDATE metric SET value = value + 1 WHERE name = 'psnr' AND cell =
    (SELECT max(cell) FROM metric WHERE name = 'psnr' AND value IS NOT NULL)"
key=$(sql "$work/p.db" "SELECT max(cell) FROM metric WHERE name = 'psnr' AND value IS NOT NULL")
exits 4 "fsck finds one changed value" fsck "$work/p.db"
prints "fsck names the damaged cell" "the rows of cell $key do not match their checksum"
exits 2 "query --check refuses the damaged database" query --check --db "$work/p.db" 'SELECT 1'
says "the error recommends fsck" 'fsck .* saves the intact rows'
exits 2 "report refuses the damaged database" report --db "$work/p.db"
exits 2 "merge refuses the damaged database" merge "$work/p.db" -o "$work/all.db"
says "merge names the database and the cell" "p.db: the database is damaged: .*$key"
check "the failed merge writes no database" test ! -e "$work/all.db"
cp "$work/shared.db" "$work/less.db"
sqlite3 "$work/less.db" 'DROP TABLE metric'
exits 2 "report refuses a database that lacks a table" report --db "$work/less.db"
says "the error names the missing table" "less.db: table 'metric' is missing"

exits 4 "fsck -o saves the intact cells" fsck "$work/p.db" -o "$work/saved.db" --json
json "all cells but the damaged one are saved" ".cells == $n - 1 and .lost_cells == 1 and .saved != null"
exits 0 "fsck accepts the saved database" fsck "$work/saved.db"
exits 0 "report reads the saved database" report --db "$work/saved.db"
exits 0 "merge reads the saved database" merge "$work/saved.db" -o "$work/all.db"
exits 2 "fsck -o does not overwrite a file" fsck "$work/p.db" -o "$work/saved.db"

# Adding a metric must not renew the checksum of a damaged cell.
exits 2 "score refuses the damaged database" score --db "$work/p.db" --out "$work/out" --metrics sharpness
exits 4 "after score, fsck still finds the damage" fsck "$work/p.db"

# A plan from which cells were deleted would hide cells that were not measured.
exits 0 "merge copies the database again" merge "$work/shared.db" -o "$work/q.db"
sqlite3 "$work/q.db" "DELETE FROM plan WHERE method = 'RTN_INT2'"
sweep=$(sql "$work/q.db" 'SELECT id FROM sweep')
exits 4 "fsck finds a plan with deleted cells" fsck "$work/q.db" --json
json "fsck names the damaged sweep" --arg s "the rows of sweep $sweep do not match their checksum" \
    '.lost_sweeps == 1 and .lost_cells == 0 and any(.found[]; contains($s))'
exits 2 "report refuses a database with a damaged plan" report --db "$work/q.db"
again=(run "$work/p.yaml" --out "$work/out" -q --force --filter "method=RTN_INT2+taylor & prompt=mg01")
exits 2 "run refuses a database with a damaged plan" "${again[@]}" --db "$work/q.db"
says "the error of run names the damaged sweep" "the rows of sweep $sweep do not match their checksum"
exits 4 "fsck -o saves the cells without the plan" fsck "$work/q.db" -o "$work/r.db" --json
json "all cells are saved without the plan" ".cells == $n and .sweeps == 0"
exits 0 "the sweep stores its plan again" "${again[@]}" --db "$work/r.db"
exits 0 "fsck accepts the database with the new plan" fsck "$work/r.db" --json
json "fsck checks cells and plan" ".cells == $n and .sweeps == 1 and .problems == 0"
