#!/usr/bin/env bash
# Databases: locked by another program, opened by many processes, and in a read-only folder. The test also covers
# endless statements, and texts that a spreadsheet would execute.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

tiny_config "$work/t.yaml" 6

# Another program locks the database during a sweep, for longer than SQLite's busy timeout.
"$kvreel" run "$work/t.yaml" --db "$work/held.db" --out "$work/out" --jobs 1 >"$out" 2>"$work/said" &
sweep=$!
for _ in $(seq 600); do
    [ "$(sqlite3 -readonly "$work/held.db" 'SELECT count(*) FROM cell' 2>/dev/null || echo 0)" -ge 1 ] && break
    sleep 0.1
done
{ echo 'BEGIN IMMEDIATE;' && sleep 13 && echo 'COMMIT;'; } |
    sqlite3 -cmd '.timeout 5000' "$work/held.db"
wait "$sweep"
check "a sweep waits for a lock of 13 s and succeeds" test $? -eq 0
check "the sweep says that it waits for another program" grep -q 'another program is writing to .*held.db: waiting' "$work/said"
check "the sweep stores all cells in spite of the lock" test "$(sql "$work/held.db" \
    "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -eq "$(sql "$work/held.db" 'SELECT count(*) FROM cell')"

# Six processes create the same database at once: each merge into it must succeed.
for round in 1 2 3 4; do
    pids=()
    for _ in 1 2 3 4 5 6; do
        "$kvreel" merge "$work/held.db" -o "$work/joined$round.db" >/dev/null 2>>"$work/merges" &
        pids+=($!)
    done
    good=0
    for p in "${pids[@]}"; do wait "$p" && good=$((good + 1)); done
    check "six merges into one new file succeed, round $round" test "$good" -eq 6
done
[ ! -s "$work/merges" ] || cat "$work/merges"

# Without FFmpeg's libraries, a sweep fails before it computes anything. With videos: false it runs.
mkdir "$work/none"
for name in avformat avcodec avutil swscale; do
    for v in 55 56 57 58 59 60 61 62; do : >"$work/none/lib$name.so.$v"; done
done
hidden=(env LD_LIBRARY_PATH="$work/none" "$kvreel")
"${hidden[@]}" run "$work/t.yaml" --db "$work/mute.db" --out "$work/mute" -q >"$out" 2>"$err"
check "a sweep with videos fails without FFmpeg" test $? -eq 2
says "the error suggests --set videos=false" 'videos cannot be encoded: FFmpeg: .*--set videos=false'
check "the sweep fails before its first cell" test "$(sql "$work/mute.db" 'SELECT count(*) FROM cell')" = 0
"${hidden[@]}" doctor >"$out" 2>"$err"
prints "doctor reports that videos are unavailable" '^note +videos +unavailable: FFmpeg'
"${hidden[@]}" run "$work/t.yaml" --db "$work/mute.db" --out "$work/mute" -q --set videos=false >"$out" 2>"$err"
check "with videos: false, the sweep runs without FFmpeg" test $? -eq 0

# A database in a read-only folder, where SQLite cannot create the two files of its write-ahead log.
mkdir "$work/fixed"
cp "$work/held.db" "$work/fixed/a.db"
sqlite3 "$work/fixed/a.db" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
rm -f "$work/fixed"/a.db-*
as_nobody=()
if [ "$(id -u)" -eq 0 ]; then
    as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    cp "$kvreel" "$work/kvreel"
    chmod 755 "$work" "$work/kvreel"
else
    ln -s "$(realpath "$kvreel")" "$work/kvreel"
fi
chmod 444 "$work/fixed/a.db"
chmod 555 "$work/fixed"
if "${as_nobody[@]}" "$work/kvreel" version >/dev/null 2>&1; then
    n=$("${as_nobody[@]}" "$work/kvreel" query --db "$work/fixed/a.db" --csv \
        'SELECT count(*) FROM cell' 2>"$err" | tail -n 1 | tr -d '\r')
    check "query reads a database in a read-only folder" test "$n" = "$(sql "$work/held.db" 'SELECT count(*) FROM cell')"
    cat "$err"
else
    skip "query of a database in a read-only folder" "nobody cannot run the program here"
fi
chmod 755 "$work/fixed"

# Limits on a statement's time and memory.
endless='WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT'
exits 2 "query --timeout stops an endless statement" query --db "$work/held.db" --timeout 1 "$endless max(x) FROM n"
says "the error states the time limit" 'not finished after 1 s'
exits 1 "query --memory stops an endless result" query --db "$work/held.db" --memory 64 "$endless x, zeroblob(1000) FROM n"
says "the error states the memory limit" 'needs more than the limit of 64 MiB'
exits 1 "query --memory also limits SQLite's own memory" query --db "$work/held.db" --memory 64 \
    "SELECT length(group_concat(printf('%10000d', x))) FROM ($endless x FROM n LIMIT 100000)"

# CSV output puts a quote before texts that a spreadsheet would execute as formulas.
exits 0 "query --csv of formulas" query --db "$work/held.db" --csv "SELECT '=1+1' AS a, '@x' AS b, '-' AS c, -3 AS d, 'a=b' AS e"
prints "CSV puts a quote before formulas, not before numbers and a dash" "^\"'=1\+1\",\"'@x\",-,-3,a=b"
