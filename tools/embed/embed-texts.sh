#!/bin/sh
# embed-texts.sh - files as C: `embed-texts.sh FILE...` prints a text kvr_statement_NAME for each
# NAME.sql, kvr_script_NAME for each NAME.gp, kvr_python_NAME for each NAME.py.
#
# Comments of SQL (two dashes and a blank, at the start of a line or behind blanks) and empty lines
# stay in the file; everything else is the text, to the letter, without the last line's end. A
# script goes as it is.
set -eu
for file; do
    case $file in
    *.sql) name=kvr_statement_$(basename "$file" .sql) sql=1 ;;
    *.py) name=kvr_python_$(basename "$file" .py) sql=0 ;;
    *) name=kvr_script_$(basename "$file" .gp) sql=0 ;;
    esac
    printf 'extern const char %s[];\nconst char %s[] =\n' "$name" "$name"
    awk -v sql="$sql" '
        sql { sub(/(^|[ \t]+)-- .*$/, "") }
        sql && /^[ \t]*$/ { next }
        { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\?/, "\\?")
          printf "%s    \"%s", n++ ? "\\n\"\n" : "", $0 }
        END { if (!n) { print FILENAME ": nothing in it" > "/dev/stderr"; exit 1 }
              print sql ? "\";" : "\\n\";" }' "$file"
done
