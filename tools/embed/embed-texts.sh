#!/bin/sh
# embed-texts.sh - prints files as C strings: `embed-texts.sh FILE...` defines kvr_statement_NAME for each
# NAME.sql, kvr_script_NAME for each NAME.gp and kvr_python_NAME for each NAME.py.
#
# The script removes empty lines and comments from SQL files. A comment begins with two dashes and a space, at the
# start of a line or after a space or tab. The string of an SQL file ends without a newline. Other files are copied
# unchanged.
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
