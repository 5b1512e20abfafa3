#!/usr/bin/env bash
# claims.sh - write docs/claims.md and docs/img/claims.png: what the ledger's claims come to in a database.
#
#     tools/claims.sh build/kvreel out/settle.db     several databases: kvreel merge them first
set -euo pipefail

kvreel=${1:-build/kvreel}
db=${2:-out/settle.db}
work=$(mktemp -d)
page=$work/claims.md
trap 'rm -rf "$work"' EXIT
{
    cat <<'END'
# What the papers say, and what of it is seen here

The output of `kvreel claims` ([results/claims.yaml](../results/claims.yaml) is the ledger,
[report](report.md#claims) what the verdicts mean, [measuring](measuring.md#verdicts-on-claims) the test), written by
`tools/claims.sh`. A claim is printed figures and an order; what is tested is the order, on the bundled
model: that one holds here says that nothing in a small model contradicts it, that it does not hold is no
measurement of the paper's model. Ratios are arithmetic on the paper's own model.

Its database is made by `kvreel settle all --elsewhere 6`; times are of `configs/claims-time.yaml` on a quiet
machine with `--jobs 1`, claims of language models of `configs/partial-prefill.yaml`, joined with `kvreel merge`.

![Mean difference, interval, margin and published value of each claim](img/claims.png)

END
    if [ -e "$db" ]; then
        echo "Cells of the database: $("$kvreel" query --db "$db" --csv "
            SELECT count(*) || ' of ' || count(DISTINCT method) || ' methods over ' ||
                count(DISTINCT suite || prompt_id) || ' prompts and ' || count(DISTINCT seed) ||
                ' seeds, ' || group_concat(DISTINCT model) FROM cells_wide WHERE outcome = 'OK'" |
            tail -n 1 | tr -d '\r"')."
        echo
        "$kvreel" claims --db "$db" --format md
    else
        "$kvreel" claims --format md
    fi
} >"$page"
cp "$page" docs/claims.md
if [ -e "$db" ] && "$kvreel" plot claims --db "$db" -o "$work" --format png >&2; then
    mkdir -p docs/img
    cp "$work/claims.png" docs/img/claims.png
fi
