#!/usr/bin/env bash
# check-sizes.sh - fails for a function above 60 lines or a source file above 900.
#
#     tools/lint/check-sizes.sh [ROOT]    compare with ROOT/tools/lint/sizes.baseline
#
# The lines of a function are those between its braces. Tests are not checked, because their tables are data.
# The baseline lists the exceptions with their present size. An exception that grows, or that is no longer
# needed, is an error.
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/../..}"
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Prints FILE NAME LINES for each function and file above its limit; NAME is "-" for a file. A brace
# in column 1 starts or ends a function, because clang-format puts no other braces there.
find harness methods metrics plots \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) -print | sort |
    xargs -d '\n' awk -v most_function=60 -v most_file=900 '
        function end_file() { if (lines > most_file) print file, "-", lines }
        function name_of(sig,    word) {
            gsub(/__launch_bounds__\([^)]*\)|__attribute__\(\(.*\)\)|template <[^>]*>/, "", sig)
            if (!match(sig, /[A-Za-z_][A-Za-z0-9_]*\(/)) return "?"
            word = substr(sig, RSTART, RLENGTH - 1)
            return word
        }
        FNR == 1 { end_file(); file = FILENAME; sig = ""; open = 0 }
        { lines = FNR }
        open && /^}/ { if (FNR - open - 1 > most_function) print FILENAME, name, FNR - open - 1; open = 0; sig = ""; next }
        open { next }
        /^{/ && sig ~ /\(/ { open = FNR; name = name_of(sig); next }
        /^ *$|^#|^ ?\*|^\/\*|;$|^}/ { sig = ""; next }
        { sig = sig " " $0 }
        END { end_file() }' >"$found"
awk '
    FILENAME == ARGV[1] { limit[$1 " " $2] = $3; next }
    { at = $1 " " $2; seen[at] = 1 }
    !(at in limit) || $3 > limit[at] {
        what = $2 == "-" ? $1 : $1 ": " $2 "()"
        if (at in limit) print what " has " $3 " lines; tools/lint/sizes.baseline allows " limit[at]
        else print what " has " $3 " lines; at most " ($2 == "-" ? 900 : 60) ": divide it where an idea can be named"
        bad = 1
    }
    END {
        for (at in limit) if (!(at in seen)) { print at ": no longer above the limit; remove it from tools/lint/sizes.baseline"; bad = 1 }
        exit bad
    }' tools/lint/sizes.baseline "$found"
echo "sizes: $(wc -l <"$found") exceptions, none above the baseline"
