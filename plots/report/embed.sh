#!/bin/sh
# embed.sh - embeds files in C: `embed.sh NAME FILE...` prints the array `const char NAME[]`, which contains the
# bytes of all files and a terminating zero byte.
set -eu
name=$1
shift
printf '#include "harness/report/page/html.h"\nconst char %s[] = {\n' "$name"
# od -v does not abbreviate repeated lines. -td1 prints signed bytes, so that each byte of UTF-8 fits a char.
cat "$@" | od -An -v -td1 | sed 's/\([0-9]\)\( \|$\)/\1,\2/g'
printf '0 };\n'
