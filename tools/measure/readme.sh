#!/usr/bin/env bash
# readme.sh - updates the README's pictures and table from results/measured/h100 and the last `make demo`.
#
#     tools/measure/readme.sh build/kvreel
set -euo pipefail

kvreel=${1:-build/kvreel}
dir=out/demo
db=$dir/demo.db
pictures=$(mktemp -d)
trap 'rm -rf "$pictures"' EXIT
mkdir -p docs/img
"$kvreel" plot cost --measured h100 -o "$pictures" --format png
cp "$pictures/cost.png" docs/img/cost.png

[ -e "$db" ] || {
    echo "readme: no $db; run make demo first (docs/img/cost.png is written)" >&2
    exit 1
}

rows=()
for method in BF16 RTN_INT4 RTN_INT2; do
    rows+=("$method=$dir/run/$("$kvreel" query --db "$db" --csv "
        SELECT artifact.path FROM cell JOIN artifact ON cell = key
        WHERE kind = 'frames' AND method = '$method' AND jitter = 0 ORDER BY prompt_id LIMIT 1" |
        tail -n 1 | tr -d '\r')")
done
"$kvreel" sheet docs/img/sheet.png "${rows[@]}" --columns 8
cp "$dir/figures/pareto.png" docs/img/pareto.png

table=$pictures/table
echo >"$table"
"$kvreel" query --db "$db" --md "
    SELECT method, round(compression, 2) AS compression, round(psnr_db, 1) AS 'PSNR, dB',
           round(psnr_floor, 1) AS 'floor, dB',
           round(ssim, 4) AS SSIM, round(peak_bytes / 1048576.0, 1) AS 'peak, MiB',
           round(runtime_seen_s, 2) AS 'uncontrolled time, s', n_ok || '/' || n_attempted AS n
    FROM summary ORDER BY compression" >>"$table"
{
    echo
    echo "Values are means over the demo's six prompts, with 42 latent frames and a window of 21. \`uncontrolled time\` is a cell's median"
    echo "wall time with one thread while two cells run, not a controlled measurement. \`floor\` is the PSNR of BF16 reruns. CPU"
    echo "(family/model/stepping): $("$kvreel" query --db "$db" --csv "
        SELECT cpu_model FROM session ORDER BY started DESC LIMIT 1" | tail -n 1 | tr -d '\r"')."
    echo "Load average at the end: $("$kvreel" version --json | jq -r ".load * 10 | round / 10")."
} >>"$table"
sed -i -e '/^<!-- demo: /,/^<!-- end of demo/{//!d}' -e "/^<!-- demo: /r $table" README.md
