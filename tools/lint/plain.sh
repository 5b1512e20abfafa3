#!/usr/bin/env bash
# plain.sh - finds text that the language rules of CONTRIBUTING.md exclude, and fails if the number of
# findings grows.
#
#     tools/lint/plain.sh [ROOT]            compare with ROOT/tools/lint/plain.baseline
#     tools/lint/plain.sh --list [FILE...]  list every finding (in these files)
#     tools/lint/plain.sh --lower [ROOT]    lower the baseline to the present counts; it is never raised
#
# A finding is a listed phrase, a sentence above 35 words in a header or document, or the former name of an
# identifier. tools/lint/plain.awk has the lists of phrases and names. The baseline has one count for each kind of
# finding and folder. If a count is exceeded, the script lists the findings on changed lines and fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C

text_files() {
    find . \( -name .git -o -name 'build*' \) -prune -o -type f \( -name '*.[ch]' -o -name '*.cu' \
        -o -name '*.cuh' -o -name '*.cc' -o -name '*.def' -o -name '*.sql' -o -name '*.md' -o -name '*.sh' \) \
        ! -path './tests/cli/test_plain.sh' ! -path './docs/claims.md' -print | sed 's|^\./||' | sort
}

findings() { # [FILE...]
    if [ $# -gt 0 ]; then awk -f "$here/plain.awk" "$@"; else text_files | xargs -d '\n' awk -f "$here/plain.awk"; fi
}

# Prints KIND FOLDER COUNT for each kind and folder. A folder is the first two components of the path.
counts() {
    awk '{ split($2, at, ":"); n = split(at[1], dir, "/")
           folder = n == 1 ? "." : n == 2 ? dir[1] : dir[1] "/" dir[2]
           count[$1 " " folder]++ }
         END { for (k in count) print k, count[k] }' | sort
}

# Lists the findings of one kind and folder on lines changed since the baseline. Without git, it lists all of
# them.
list() { # KIND FOLDER FINDINGS
    local base
    base=$(git log -1 --format=%H -- tools/lint/plain.baseline 2>/dev/null) || base=
    {
        [ -z "$base" ] || git diff -U0 "$base" -- . | sed -nE 's|^\+\+\+ b/|+ |p; s|^@@ [^+]*\+([0-9,]+) .*|@ \1|p'
        echo .
        cat "$3"
    } | awk -v kind="$1" -v folder="$2" '
        !body && $1 == "+" { file = $2; next }
        !body && $1 == "@" { n = split($2, a, ","); for (i = 0; i < (n > 1 ? a[2] : 1); i++) new[file, a[1] + i]; next }
        !body { body = 1; next }
        $1 == kind {
            split($2, at, ":"); n = split(at[1], dir, "/")
            if ((n == 1 ? "." : n == 2 ? dir[1] : dir[1] "/" dir[2]) != folder) next
            all = all $0 "\n"
            last = match($0, /\(to line [0-9]+\)$/) ? substr($0, RSTART + 9) + 0 : at[2]
            for (i = 0; at[2] + i <= last; i++) if ((at[1], at[2] + i) in new) { some = some $0 "\n"; break }
        }
        END { printf "%s", some != "" ? some : all }'
}

case ${1:-} in
--list)
    shift
    findings "$@"
    exit
    ;;
--lower)
    cd "${2:-$here/../..}"
    new=$(mktemp)
    findings | counts >"$new"
    if [ -f tools/lint/plain.baseline ]; then
        awk 'FILENAME == ARGV[1] { had[$1 " " $2] = $3; next }
             ($1 " " $2) in had { print $1, $2, $3 < had[$1 " " $2] ? $3 : had[$1 " " $2] }' \
            tools/lint/plain.baseline "$new" >"$new.low"
        mv "$new.low" "$new"
    fi
    cp "$new" tools/lint/plain.baseline
    rm -f "$new"
    exit
    ;;
esac

cd "${1:-$here/../..}"
found=$(mktemp)
trap 'rm -f "$found" "$found.n"' EXIT
findings >"$found"
counts <"$found" >"$found.n"
bad=0
while read -r kind folder n limit; do
    echo "$kind in $folder: $n, at most $limit (tools/lint/plain.baseline)"
    list "$kind" "$folder" "$found" | sed 's/^/    /'
    bad=1
done < <(awk 'FILENAME == ARGV[1] { limit[$1 " " $2] = $3; next }
              $3 > limit[$1 " " $2] + 0 { print $0, limit[$1 " " $2] + 0 }' tools/lint/plain.baseline "$found.n")
if [ "$bad" -ne 0 ]; then
    echo "plain: say it in the field's words (CONTRIBUTING.md, Language)"
    exit 1
fi
echo "plain: $(wc -l <"$found") findings, none above the baseline"
