#!/usr/bin/env bash
# claims.sh - writes docs/claims.md and docs/img/claims.png: a database's verdicts on the claims in
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
said() { grep -oE "$1" <<<"$note" || true; } # REGEX: prints its match in the note below the table
worst_five() { # LIST of prompts with PSNRs, from the note: describes the five lowest
    local list
    mapfile -t list < <(grep -oE '[a-z]+[0-9]+ \([0-9.]+ dB\)' <<<"$1" | sort -t'(' -k2,2n)
    echo "Means of SSIM and PSNR exclude ${#list[@]} chaotic prompts: their BF16 reruns (with perturbed noise) have a PSNR below 35 dB against the BF16 rollout. The lowest PSNRs belong to prompts $(printf '%s\n' "${list[@]:0:5}" | paste -sd, | sed 's/,/, /g')."
}
{
    cat <<'END'
# Claims of papers, tested

`kvreel claims` tests the papers' claims in [results/claims.yaml](../results/claims.yaml) on the bundled model, not on
the papers' models:

```
kvreel claims --db kvreel.db --format csv   # statement, difference, margin, settings, cost and other versions
```

[Report](report.md#claims) defines the verdicts and `--elsewhere`; [measuring](measuring.md#verdicts-on-claims) defines
the test. Differences are means over prompts with anytime-valid intervals, positive in the claimed direction; those of
GPU times are ratios. The e-BH procedure bounds the expected share of false verdicts by 5 %. PSNR is in dB, peak memory in bytes, and time relative to
BF16. Figures in parentheses are the paper's.

The data are from `kvreel settle all --elsewhere 6`, the times are from `configs/claims-time.yaml --jobs 1` on an idle
machine, and language models' losses are from `configs/partial-prefill.yaml --set chunk=128 --set frames=1024`.
`tools/measure/claims.sh` writes this page.

![Mean difference, interval, margin and published value of each claim](img/claims.png)

END
    echo "$(jq length "$work/claims.json") claims: $(verdicts holds) hold, $(verdicts 'does not hold') do not," \
        "$(verdicts equal) are equal, $(verdicts futile) are futile, $(verdicts 'cannot be told here') are open."
    if [ -e "$db" ]; then
        echo "The database has $("$kvreel" query --db "$db" --csv "
            SELECT count(*) || ' cells of ' || count(DISTINCT method) || ' methods over ' ||
                count(DISTINCT suite || prompt_id) || ' prompts and ' || count(DISTINCT seed) ||
                ' seeds, models ' || group_concat(DISTINCT model) FROM cells_wide WHERE outcome = 'OK'" |
            tail -n 1 | tr -d '\r"'); $(said "finished cells took [0-9.]+ hours of wall time")."
        two=$(said 'prompts left out of SSIM and PSNR, as their BF16 reruns diverge: ([a-z]+[0-9]+ \([0-9.]+ dB\)(, )?)+')
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
