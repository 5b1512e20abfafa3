#!/bin/sh
# embed-sql.sh - SQL files as C: `embed-sql.sh FILE...` prints a text kvr_statement_NAME for each NAME.sql.
#
# Comments (two dashes and a blank, at the start of a line or behind blanks) and empty lines stay in
# the file; everything else is the text, to the letter, without the last line's end.
set -eu
for file; do
    name=$(basename "$file" .sql)
    printf 'extern const char kvr_statement_%s[];\nconst char kvr_statement_%s[] =\n' "$name" "$name"
    awk '
        { sub(/(^|[ \t]+)-- .*$/, "") }
        /^[ \t]*$/ { next }
        { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\?/, "\\?")
          printf "%s    \"%s", n++ ? "\\n\"\n" : "", $0 }
        END { if (!n) { print FILENAME ": no statement" > "/dev/stderr"; exit 1 } print "\";" }' "$file"
done
