#!/usr/bin/env bash
# tools/lint/plain.sh finds text that CONTRIBUTING.md's language rules exclude. --lower lowers the allowed counts in
# plain.baseline and never raises them.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

says_of() { bash "$root/tools/lint/plain.sh" "$1" >"$out" 2>&1; }

tree=$work/tree
mkdir -p "$tree/tools/lint" "$tree/harness/core" "$tree/docs"
long='One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty one two three four five six seven eight nine thirty one two three four five six.'
clean() {
    echo '/* a.h - one producer, two consumers. */' >"$tree/harness/core/a.h"
    echo 'int a(void) { return 0; } /* a message */' >"$tree/harness/core/a.c"
    echo '# Guide' >"$tree/docs/guide.md"
}
found() { # what-is-found pattern
    if says_of "$tree"; then fail "$1: passed"; fi
    check "$1" grep -qE "$2" "$out"
    clean
}
clean
: >"$tree/tools/lint/plain.baseline"
check "plain text passes" says_of "$tree"

printf '/* The tile,\n * of which the rows are read\n * by those who multiply. */\n' >"$tree/harness/core/a.h"
found "a phrase across lines of a comment is found" 'phrase harness/core/a.h:1: "of which"'
echo 'const char *m = "file: nobody wrote it"; // fine' >"$tree/harness/core/a.c"
found "a phrase in a message is found" 'phrase harness/core/a.c:1: "nobody"'
echo 'int f(int q_turned);' >"$tree/harness/core/a.c"
found "an old name is found" 'name harness/core/a.c:1: q_turned'
printf '/* %s */\n' "$long" >"$tree/harness/core/a.h"
found "a sentence of 36 words in a header is found" 'long harness/core/a.h:1: 36 words'
printf '%s\n' "$long" >"$tree/docs/guide.md"
found "a sentence of 36 words in a document is found" 'long docs/guide.md:1: 36 words'

printf '/* %s */\n' "${long/ six./.}" >"$tree/harness/core/a.h"
printf '```\n%s nobody\n```\n' "$long" >"$tree/docs/guide.md"
echo 'char c = 39; /* q_turned was the name */ char *s = "\"/*"; int nobody;' >"$tree/harness/core/a.c"
check "35 words, a code block, a name in a comment and an identifier pass" says_of "$tree"
clean

echo '/* Nobody. Whoever. */' >"$tree/harness/core/a.c"
echo 'phrase harness/core 2' >"$tree/tools/lint/plain.baseline"
check "findings that the baseline allows pass" says_of "$tree"
echo '/* Nobody. Whoever. Nobody. */' >"$tree/harness/core/a.c"
if says_of "$tree"; then fail "one more than the baseline: passed"; else ok "one more than the baseline fails"; fi
bash "$root/tools/lint/plain.sh" --lower "$tree"
check "the baseline is not raised" grep -qx 'phrase harness/core 2' "$tree/tools/lint/plain.baseline"
echo '/* Nobody. */' >"$tree/harness/core/a.c"
bash "$root/tools/lint/plain.sh" --lower "$tree"
check "the baseline is lowered" grep -qx 'phrase harness/core 1' "$tree/tools/lint/plain.baseline"

( # In a folder that has old findings, only those on changed lines are listed.
    cd "$tree" && git init -q . && git add . && git -c user.name=t -c user.email=t@t commit -qm one &&
        echo '/* Whoever reads. */' >>harness/core/a.c
)
if says_of "$tree"; then fail "a new finding: passed"; fi
check "the new finding is listed" grep -q 'a.c:2: "whoever"' "$out"
if grep -q 'a.c:1:' "$out"; then fail "an old finding is listed too"; else ok "the old finding is not listed"; fi
