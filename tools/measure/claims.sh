#!/usr/bin/env bash
# claims.sh - write docs/claims.md and docs/img/claims.png: the verdicts of results/claims.yaml on a database.
#
#     tools/measure/claims.sh build/kvreel out/settle.db     several databases: kvreel merge them first
#
# tools/measure/claims.jq lays out the rows of `kvreel claims --json`; needs jq.
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
    echo "${#list[@]} prompts have two possible videos and are left out of SSIM and PSNR. The worst: $(printf '%s\n' "${list[@]:0:5}" | paste -sd, | sed 's/,/, /g')."
}
{
    cat <<'END'
# Claims of papers, tested

The verdicts of `kvreel claims` on [results/claims.yaml](../results/claims.yaml). For example:

```
kvreel claims --db kvreel.db --format csv   # also place, metric, margin, settings, cost and the other readings of each claim
```

Tests are of the printed order, on the bundled model: they are no measurement of the paper's model.
[Report](report.md#claims) defines the verdicts, [measuring](measuring.md#verdicts-on-claims) the test. Differences are
means over prompts, positive as the claim says, with anytime-valid intervals (e-BH at 5 %).
Figures in parentheses are the paper's.

`kvreel settle all --elsewhere 6` measures, times come from `configs/claims-time.yaml --jobs 1` on a quiet machine, claims of
language models from `configs/partial-prefill.yaml --set chunk=128 --set frames=1024`. `tools/measure/claims.sh` writes this page.

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
