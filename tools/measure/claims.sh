#!/usr/bin/env bash
# claims.sh - writes docs/claims.md and docs/img/claims.png: the verdicts of a database on
# results/claims.yaml.
#
#     tools/measure/claims.sh build/kvreel out/settle.db     `kvreel merge` joins several databases first
#
# tools/measure/claims.jq formats the rows of `kvreel claims --json`. The script needs jq.
set -euo pipefail

kvreel=${1:-build/kvreel}
db=${2:-out/settle.db}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
page=$work/claims.md
trap 'rm -rf "$work"' EXIT
of_db=()
[ ! -e "$db" ] || of_db=(--db "$db")
"$kvreel" claims "${of_db[@]}" --json >"$work/claims.json"
note=$("$kvreel" claims "${of_db[@]}" --format md | tail -n 1)
verdicts() { jq "map(select(.verdict == \"$1\")) | length" "$work/claims.json"; }
said() { grep -oE "$1" <<<"$note" || true; } # a part of the note below the table
worst_five() { # LIST: the prompts that the note names, with their distances
    local list
    mapfile -t list < <(grep -oE '[a-z]+[0-9]+ \([0-9.]+ dB\)' <<<"$1" | sort -t'(' -k2,2n)
    echo "${#list[@]} prompts with two possible videos are excluded from SSIM and PSNR. The worst: $(printf '%s\n' "${list[@]:0:5}" | paste -sd, | sed 's/,/, /g')."
}
{
    cat <<'END'
# Claims of papers, tested

Which claims of papers hold on the bundled model: the verdicts of `kvreel claims` on
[results/claims.yaml](../results/claims.yaml), without a measurement of the papers' own models. For example:

```
kvreel claims --db kvreel.db --format csv   # statement, difference, margin, settings, cost and other readings of each claim
```

[Report](report.md#claims) defines the verdicts, [measuring](measuring.md#verdicts-on-claims) the test. Differences are means over
prompts, positive in the claimed direction, with anytime-valid intervals; e-BH at 5 % decides the verdicts. Figures in parentheses are the paper's.

Data: `kvreel settle all --elsewhere 6`; times by `configs/claims-time.yaml --jobs 1` on a quiet machine, language models by
`configs/partial-prefill.yaml --set chunk=128 --set frames=1024`. `tools/measure/claims.sh` writes this page.

![Mean difference, interval, margin and published value of each claim](img/claims.png)

END
    echo "$(jq length "$work/claims.json") claims: $(verdicts holds) hold, $(verdicts 'does not hold') do not," \
        "$(verdicts equal) are equal, $(verdicts futile) are futile, $(verdicts 'cannot be told here') are open."
    if [ -e "$db" ]; then
        echo "The database has $("$kvreel" query --db "$db" --csv "
            SELECT count(*) || ' cells of ' || count(DISTINCT method) || ' methods over ' ||
                count(DISTINCT suite || prompt_id) || ' prompts and ' || count(DISTINCT seed) ||
                ' seeds, ' || group_concat(DISTINCT model) FROM cells_wide WHERE outcome = 'OK'" |
            tail -n 1 | tr -d '\r"'); $(said 'the verdicts took [0-9.]+ hours of one core')."
        two=$(said 'prompts with two possible videos, left out of SSIM and PSNR: ([a-z]+[0-9]+ \([0-9.]+ dB\)(, )?)+')
        [ -z "$two" ] || worst_five "${two#*: }"
    fi
    jq -r --slurpfile fixed results/claims-fixed-n.json -f "$here/claims.jq" "$work/claims.json"
    echo
    echo "## Sources"
    echo
    sed -nE '/^sources:/,/^margins:/ s/^  ([a-z0-9]+): "(.*)"$/* **\1**: \2/p' results/claims.yaml
} >"$page"
cp "$page" docs/claims.md
if [ -e "$db" ] && "$kvreel" plot claims --db "$db" -o "$work" --format png >&2; then
    mkdir -p docs/img
    cp "$work/claims.png" docs/img/claims.png
fi
