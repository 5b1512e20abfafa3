#!/usr/bin/env bash
# demo.sh - runs BF16 and the RTN methods on the bundled model, and writes a table, a figure and videos.
#
#     tools/demo.sh build/kvreel
#
# All output is in out/demo. A second run does not measure finished cells again.
set -euo pipefail

kvreel=${1:-build/kvreel}
dir=out/demo
db=$dir/demo.db
mkdir -p "$dir"
if [ -e "$db" ] && ! "$kvreel" query --db "$db" 'SELECT count(*) FROM cell' >/dev/null 2>&1; then
    echo "demo: $db is of another version; it is kept as $db.old"
    mv "$db" "$db.old"
fi

echo "demo: configs/demo.yaml, two cells at a time"
"$kvreel" run configs/demo.yaml --db "$db" --out "$dir/run" --jobs 2

echo
"$kvreel" report --db "$db" --table summary
"$kvreel" plot pareto --db "$db" -o "$dir/figures" >/dev/null
"$kvreel" report --db "$db" --media "$dir/run" -o "$dir/report" >/dev/null

# One contact sheet per prompt, with one row of frames per method, from the raw frames of the run.
mkdir -p "$dir/sheets"
"$kvreel" query --db "$db" --csv "SELECT DISTINCT prompt_id FROM cell ORDER BY prompt_id" |
    tail -n +2 | tr -d '\r' | while read -r prompt; do
        mapfile -t rows < <("$kvreel" query --db "$db" --csv "
            SELECT method || '=$dir/run/' || artifact.path FROM cell JOIN artifact ON cell = key
            WHERE kind = 'frames' AND prompt_id = '$prompt' AND outcome = 'OK' AND jitter = 0
            ORDER BY nominal_bytes DESC" | tail -n +2 | tr -d '\r')
        "$kvreel" sheet "$dir/sheets/$prompt.png" "${rows[@]}" --columns 7 >/dev/null
    done

echo
echo "database        $db"
echo "figure          $(ls "$dir"/figures/*.svg 2>/dev/null || ls "$dir"/figures/*.gp)"
echo "videos          $dir/run/videos ($(find "$dir/run/videos" -name '*.mp4' | wc -l) of them)"
echo "contact sheets  $(echo "$dir"/sheets/*.png)"
echo
echo "ask it:  $kvreel query --db $db 'SELECT method, compression, ssim FROM summary'"
echo
echo "report, to open in a browser:  $PWD/$dir/report/index.html"
