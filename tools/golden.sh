#!/usr/bin/env bash
# golden.sh - run the golden sweep and compare it with what is under version control.
#
#     tools/golden.sh build/kvreel [--write]
#
# Bytes must be equal. Fidelity may move by 0.5 dB or 0.02 of SSIM: a grid of four levels flips
# a code where a sum differs in its last bit, and another CPU sums in another order; what a
# mistake does is larger. Data-dependent byte counts (outliers) may move by 1 %.
set -uo pipefail

kvreel=$1
golden=results/golden/golden.csv
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$kvreel" run configs/golden.yaml --db "$dir/golden.db" --out "$dir/out" --jobs 2 \
    >/dev/null 2>"$dir/log" || { cat "$dir/log"; exit 1; }
"$kvreel" query --db "$dir/golden.db" --csv "
    SELECT c.method, c.nominal_bytes, c.resident_bytes, round(p.value, 3) AS psnr_db,
           round(s.value, 5) AS ssim
    FROM cell c JOIN metric p ON p.cell = c.key AND p.name = 'psnr'
                JOIN metric s ON s.cell = c.key AND s.name = 'ssim'
    ORDER BY c.method" | tr -d '\r' >"$dir/new.csv" || exit 1
if [ "${2:-}" = --write ]; then
    cp "$dir/new.csv" "$golden"
    echo "golden: wrote $golden"
    exit 0
fi
awk -F, '
    function off(a, b) { return a > b ? a - b : b - a }
    FNR == 1 { file++; next }
    file == 1 { old[$1] = $0; next }
    {
        seen[$1] = 1
        if (!($1 in old)) { print "golden: " $1 " is new"; bad = 1; next }
        split(old[$1], o, ",")
        slack = $1 ~ /QAQ|TPTQ/ ? 0.01 * o[2] : 0
        if (!(off($2, o[2]) <= slack)) { print "golden: " $1 ": nominal bytes " o[2] " -> " $2; bad = 1 }
        if (!(off($3, o[3]) <= slack)) { print "golden: " $1 ": resident bytes " o[3] " -> " $3; bad = 1 }
        if (!(off($4, o[4]) <= 0.5)) { print "golden: " $1 ": PSNR " o[4] " -> " $4 " dB"; bad = 1 }
        if (!(off($5, o[5]) <= 0.02)) { print "golden: " $1 ": SSIM " o[5] " -> " $5; bad = 1 }
        n++
    }
    END {
        for (m in old) if (!(m in seen)) { print "golden: " m " is gone"; bad = 1 }
        if (!n) { print "golden: nothing was measured"; bad = 1 }
        print "golden: " n " rows compared"
        exit bad
    }' "$golden" "$dir/new.csv"
