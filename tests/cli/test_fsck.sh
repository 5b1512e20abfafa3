#!/usr/bin/env bash
# A damaged database is refused with the name of the damaged part, and fsck -o saves the rest.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/p.yaml"
shared_sweep "$work/p.yaml" "$work/shared.db" "$work/out"
exits 0 "a fresh copy" merge "$work/shared.db" -o "$work/p.db"
n=$(sql "$work/p.db" 'SELECT count(*) FROM cell')
exits 0 "what a sweep wrote is whole" fsck "$work/p.db" --json
json "cell by cell" ".problems == 0 and .checksums and .cells == $n and .lost_cells == 0"
json "and its plan" '.sweeps == 1 and .lost_sweeps == 0'
exits 0 "a query may ask for that first" query --check --db "$work/p.db" 'SELECT count(*) FROM cell'

sqlite3 "$work/p.db" "UPDATE metric SET value = value + 1 WHERE name = 'psnr' AND cell =
    (SELECT max(cell) FROM metric WHERE name = 'psnr' AND value IS NOT NULL)"
key=$(sql "$work/p.db" "SELECT max(cell) FROM metric WHERE name = 'psnr' AND value IS NOT NULL")
exits 4 "one changed value is found" fsck "$work/p.db"
prints "and its cell named" "the rows of cell $key do not match their checksum"
exits 2 "a query with --check refuses it" query --check --db "$work/p.db" 'SELECT 1'
says "and says what to do" 'fsck .* saves the intact rows'
exits 2 "so does a report" report --db "$work/p.db"
exits 2 "and a merge" merge "$work/p.db" -o "$work/all.db"
says "by name" "p.db: the database is damaged: .*$key"
check "nothing of it is taken, and no empty database is left" test ! -e "$work/all.db"
cp "$work/shared.db" "$work/less.db"
sqlite3 "$work/less.db" 'DROP TABLE metric'
exits 2 "a table that is gone" report --db "$work/less.db"
says "is named" "less.db: table 'metric' is missing"

exits 4 "the rest is saved" fsck "$work/p.db" -o "$work/saved.db" --json
json "all cells but that" ".cells == $n - 1 and .lost_cells == 1 and .saved != null"
exits 0 "what is saved is whole" fsck "$work/saved.db"
exits 0 "and can be read" report --db "$work/saved.db"
exits 0 "and merged" merge "$work/saved.db" -o "$work/all.db"
exits 2 "nothing is written over" fsck "$work/p.db" -o "$work/saved.db"

# Adding a metric must not renew the checksum of a damaged cell.
exits 2 "scores are not added to it" score --db "$work/p.db" --out "$work/out" --metrics sharpness
exits 4 "so that it is still found" fsck "$work/p.db"

# A changed plan would hide cells that were not measured.
exits 0 "another copy" merge "$work/shared.db" -o "$work/q.db"
sqlite3 "$work/q.db" "DELETE FROM plan WHERE method = 'RTN_INT2'"
sweep=$(sql "$work/q.db" 'SELECT id FROM sweep')
exits 4 "a plan with cells less is found" fsck "$work/q.db" --json
json "by its name" --arg s "the rows of sweep $sweep do not match their checksum" \
    '.lost_sweeps == 1 and .lost_cells == 0 and any(.found[]; contains($s))'
exits 2 "no report says that all is there" report --db "$work/q.db"
again=(run "$work/p.yaml" --out "$work/out" -q --force --filter "method=RTN_INT2+taylor & prompt=mg01")
exits 2 "nor does the sweep go on over it" "${again[@]}" --db "$work/q.db"
says "but says why" "the rows of sweep $sweep do not match their checksum"
exits 4 "the cells are saved without it" fsck "$work/q.db" -o "$work/r.db" --json
json "all of them" ".cells == $n and .sweeps == 0"
exits 0 "and the sweep makes its plan anew" "${again[@]}" --db "$work/r.db"
exits 0 "that is whole" fsck "$work/r.db" --json
json "cells and plan" ".cells == $n and .sweeps == 1 and .problems == 0"
