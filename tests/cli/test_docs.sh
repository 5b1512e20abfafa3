#!/usr/bin/env bash
# docs/methods.md agrees with the registry, and the check notices an outdated table.
. tests/cli/lib.sh || exit 1

exits 0 "list methods --md" list methods --md
check "a row per method" test "$(grep -c '^| [A-Z]' "$out")" -eq \
    "$("$kvreel" list methods --json | jq length)"
cp docs/methods.md "$work/methods.md"
check "the tables can be made" bash tools/measure/methods-table.sh "$kvreel" "$work/methods.md"
check "docs/methods.md is up to date (make docs)" diff docs/methods.md "$work/methods.md"
sed 's/^| RTN_INT4 .*/| RTN_INT4 | another row |/' docs/methods.md >"$work/old.md"
check "a wrong row is seen" bash -c "! diff -q docs/methods.md '$work/old.md'"
check "and put right" bash tools/measure/methods-table.sh "$kvreel" "$work/old.md"
check "to the same text" diff docs/methods.md "$work/old.md"
grep -v 'methods:end' docs/methods.md >"$work/open.md"
check "a marker that is gone is refused" bash -c "! bash tools/measure/methods-table.sh '$kvreel' '$work/open.md'"
check "and the file stays" bash -c "grep -v 'methods:end' docs/methods.md | cmp - '$work/open.md'"
exits 2 "--md of metrics" list metrics --md
exits 2 "--md and --json" list methods --md --json

for project in qvg lightx2v; do
    check "docs/methods.md has the departures of @$project" grep -q "^### Departures of \`@$project\`" docs/methods.md
done

# docs/methods.md has a section for each stage, tier rule and correction.
while read -r part; do
    check "docs/methods.md speaks of $part" grep -q "^### .*\b$part\b" docs/methods.md
done < <(sed -n 's/^\(STAGE\|TIERS\|CORRECTION\)(\(.*\))$/\2/p' methods/methods.def \
    methods/tiers/tiers.def methods/corrections/corrections.def)

# Every test that docs/rules.md names exists.
n=0
while IFS=: read -r file name; do
    n=$((n + 1))
    check "docs/rules.md: tests/$file${name:+, $name}" grep -qE "${name:+START_TEST\($name\)}" "tests/$file"
done < <(grep -oE '`[a-z]+/test_[a-z_]+\.(sh|c(:[a-z_0-9]+)?)`' docs/rules.md | tr -d '`' | sort -u)
check "docs/rules.md names tests" test "$n" -ge 100
check "and of each rule one" test "$(sed '/^## Not held/,$d' docs/rules.md | grep '^| [a-z6]' | grep -vc '`[a-z]*/test_\|^| rule ')" -eq 0
