#!/bin/sh
# embed.sh - files as a C array: `embed.sh NAME FILE...` prints `const char NAME[]` of all of them,
# ended by a zero byte.
set -eu
name=$1
shift
printf '#include "harness/report/page/html.h"\nconst char %s[] = {\n' "$name"
# od repeats nothing (-v) and prints signed bytes, so that UTF-8 fits a char.
cat "$@" | od -An -v -td1 | sed 's/\([0-9]\)\( \|$\)/\1,\2/g'
printf '0 };\n'
