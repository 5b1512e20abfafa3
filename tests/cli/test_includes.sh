#!/usr/bin/env bash
# check-includes.sh accepts the includes that docs/architecture.md allows and rejects others.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

says_of() { bash "$root/tools/lint/check-includes.sh" "$1" >"$out" 2>&1; }

check "every include is allowed" says_of "$root"
cat "$out"

mkdir -p "$work/tree/docs"
cp -r "$root/harness" "$root/methods" "$root/metrics" "$work/tree/"
cp "$root/docs/architecture.md" "$work/tree/docs/"
planted() { # what-is-found pattern
    if says_of "$work/tree"; then fail "$1: passed"; fi
    check "$1" grep -q "$2" "$out"
}

echo '#include "harness/run/runner.h"' >>"$work/tree/methods/registry.c"
planted "an include of the runner by a method is found" \
    'methods/registry.c:[0-9]*: includes harness/run/runner.h; methods may not include from run'
cp "$root/methods/registry.c" "$work/tree/methods/"

mkdir "$work/tree/harness/attic"
echo '#include "harness/core/status.h"' >"$work/tree/harness/attic/a.c"
planted "a folder without a row in the table is found" 'no row for the folder of harness/attic/a.c'
rm -r "$work/tree/harness/attic"

media='harness\/files\/media'
sed -i "/^| \`$media\`/s/| core |\$/| core, report\/page |/" "$work/tree/docs/architecture.md"
planted "a cycle of folders in the table is found" \
    'a circle: .*files/media > report/page > files/media\|a circle: .*report/page > files/media > report/page'

sed -i "/^| \`$media\`/d" "$work/tree/docs/architecture.md"
planted "a missing row of the table is found" 'the row of [a-z/]* names files/media, which has no row'

# check-index.sh: tools/README.md lists exactly the scripts of tools/.
index_of() { bash "$root/tools/lint/check-index.sh" "$1" >"$out" 2>&1; }
check "tools/README.md has every script" index_of "$root"
cp -r "$root/tools" "$work/tree/"
: >"$work/tree/tools/measure/new.sh"
if index_of "$work/tree"; then fail "a script without a line: passed"; fi
check "a script without a line is found" grep -qx 'tools/measure/new.sh: no line in tools/README.md' "$out"
rm "$work/tree/tools/measure/new.sh" "$work/tree/tools/release/deb.sh"
if index_of "$work/tree"; then fail "a line without a script: passed"; fi
check "a line without a script is found" grep -qx 'tools/README.md: no script tools/release/deb.sh' "$out"
