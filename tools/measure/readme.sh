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
    SELECT method, printf('%.2f', compression) AS compression, printf('%.1f', psnr_db) AS 'PSNR, dB',
           printf('%.1f', psnr_floor) AS 'floor, dB',
           printf('%.4f', ssim) AS SSIM, printf('%.1f', peak_bytes / 1048576.0) AS 'peak, MiB',
           printf('%.2f', runtime_seen_s) AS 'uncontrolled time, s', n_ok || '/' || n_attempted AS n
    FROM summary ORDER BY compression" | sed 's/^|---.*/|---|---:|---:|---:|---:|---:|---:|---|/' >>"$table"
cpu=$("$kvreel" query --db "$db" --csv "SELECT cpu_model FROM session ORDER BY started DESC LIMIT 1" | tail -n 1 | tr -d '\r"')
load=$("$kvreel" version --json | jq -r '.load * 10 | round / 10')
{
    echo
    echo "Values are means over the demo's six prompts, with 42 latent frames and a window of 21. \`uncontrolled time\` is a" \
        "cell's median wall time with one thread while two cells run, not a controlled measurement. \`floor\` is the PSNR of" \
        "BF16 reruns. CPU (family/model/stepping): $cpu. Load average at the end: $load." | fold -s -w 120 | sed 's/ $//'
} >>"$table"
sed -i -e '/^<!-- demo: /,/^<!-- end of demo/{//!d}' -e "/^<!-- demo: /r $table" README.md
