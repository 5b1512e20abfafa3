#!/usr/bin/env bash
# docs/methods.md agrees with the registry, and the check notices an outdated table.
. tests/cli/lib.sh || exit 1

exits 0 "list methods --md" list methods --md
check "a row per method" test "$(grep -c '^| [A-Z]' "$out")" -eq \
    "$("$kvreel" list methods --json | jq length)"
cp docs/methods.md "$work/methods.md"
check "methods-table.sh writes the tables" bash tools/measure/methods-table.sh "$kvreel" "$work/methods.md"
check "docs/methods.md is up to date (make docs)" diff docs/methods.md "$work/methods.md"
sed 's/^| RTN_INT4 .*/| RTN_INT4 | another row |/' docs/methods.md >"$work/old.md"
check "a changed row differs from docs/methods.md" bash -c "! diff -q docs/methods.md '$work/old.md'"
check "methods-table.sh repairs a changed row" bash tools/measure/methods-table.sh "$kvreel" "$work/old.md"
check "the repaired tables equal docs/methods.md" diff docs/methods.md "$work/old.md"
grep -v 'methods:end' docs/methods.md >"$work/open.md"
check "methods-table.sh refuses a file without its end marker" bash -c "! bash tools/measure/methods-table.sh '$kvreel' '$work/open.md'"
check "the refused file is unchanged" bash -c "grep -v 'methods:end' docs/methods.md | cmp - '$work/open.md'"
exits 2 "list refuses --md for metrics" list metrics --md
exits 2 "list refuses --md together with --json" list methods --md --json

for project in qvg lightx2v; do
    check "docs/methods.md has the departures of @$project" grep -q "^### Departures of \`@$project\`" docs/methods.md
done

# docs/methods.md has a section for each stage, tier rule and correction.
while read -r part; do
    check "docs/methods.md has a section on $part" grep -q "^### .*\b$part\b" docs/methods.md
done < <(sed -n 's/^\(STAGE\|TIERS\|CORRECTION\)(\(.*\))$/\2/p' methods/methods.def \
    methods/tiers/tiers.def methods/corrections/corrections.def)

# Every test that docs/rules.md names exists.
n=0
while IFS=: read -r file name; do
    n=$((n + 1))
    check "docs/rules.md: tests/$file${name:+, $name}" grep -qE "${name:+START_TEST\($name\)}" "tests/$file"
done < <(grep -oE '`[a-z]+/test_[a-z_]+\.(sh|c(:[a-z_0-9]+)?)`' docs/rules.md | tr -d '`' | sort -u)
check "docs/rules.md names tests" test "$n" -ge 100
check "docs/rules.md names a test for each rule" test "$(sed '/^## Not held/,$d' docs/rules.md | grep '^| [a-z6]' | grep -vc '`[a-z]*/test_\|^| rule ')" -eq 0
