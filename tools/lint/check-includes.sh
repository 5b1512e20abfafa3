#!/usr/bin/env bash
# check-includes.sh - fails if a file includes a header of a folder that docs/architecture.md does not allow.
#
#     tools/lint/check-includes.sh [ROOT]
#
# The table in docs/architecture.md has a row for each folder. The last column lists the folders whose headers the
# folder's files may include, or is `nothing`. The script also reports folders without a row, rows without a
# folder, and cycles.
set -euo pipefail

cd "${1:-$(dirname "$0")/../..}"
table=docs/architecture.md

find harness methods metrics -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
    -o -name '*.def' \) -print0 | sort -z | xargs -0 grep -nE '^[ \t]*#[ \t]*include[ \t]*"' /dev/null |
    awk -v table="$table" '
    function say(text) { print text; bad = 1 }
    # "harness/store/sql.h" belongs to the folder "store", "methods/codecs/x.c" to "methods". A subfolder that
    # has its own row, such as "engine/vae", is a folder of its own.
    function folder(path,    part, at) {
        at = split(path, part, "/")
        if (part[1] != "harness") return part[1]
        if (at > 3 && (part[2] "/" part[3]) in known) return part[2] "/" part[3]
        return part[2]
    }
    function trim(s) { gsub(/^[ \t`]+|[ \t`]+$/, "", s); return s }
    function read_table(    line, cell, name, list, n, i) {
        while ((getline line < table) > 0) {
            if (line !~ /^\| *`/) { if (inside && line !~ /^\|/) break; continue }
            inside = 1
            n = split(line, cell, "|")
            name = trim(cell[2])
            sub(/^harness\//, "", name)
            sub(/\/$/, "", name)
            known[name] = ++n_rows
            order[n_rows] = name
            n = split(cell[n - 1], list, ",")
            for (i = 1; i <= n; i++)
                if (trim(list[i]) != "nothing") { may[name, trim(list[i])] = 1; asked[trim(list[i])] = name }
        }
        if (!n_rows) say(table ": no table of folders")
        for (name in asked)
            if (!(name in known)) say(table ": the row of " asked[name] " names " name ", which has no row")
    }
    # Depth-first search: a folder that is reached again on the current path closes a cycle.
    function walk(name, way,    i) {
        if (state[name] == 2) return
        if (state[name] == 1) { say(table ": a circle: " way " > " name); return }
        state[name] = 1
        for (i = 1; i <= n_rows; i++)
            if ((name, order[i]) in may) walk(order[i], way (way == "" ? "" : " > ") name)
        state[name] = 2
    }
    BEGIN {
        read_table()
        for (i = 1; i <= n_rows; i++) walk(order[i], "")
    }
    {
        at = index($0, ":")
        file = substr($0, 1, at - 1)
        rest = substr($0, at + 1)
        line = substr(rest, 1, index(rest, ":") - 1)
        to = rest
        sub(/^[^"]*"/, "", to)
        sub(/".*$/, "", to)
        from = folder(file)
        n++
        if (!(from in known)) {
            if (!(from in told)) say(table ": no row for the folder of " file)
            told[from] = 1
        } else if (to !~ /^(harness|methods|metrics)\//) {
            say(file ":" line ": \"" to "\" is not named from the root")
        } else if (folder(to) != from && !((from, folder(to)) in may)) {
            say(file ":" line ": includes " to "; " from " may not include from " folder(to) " (" table ")")
        }
    }
    END {
        for (i = 1; i <= n_rows; i++) {
            name = order[i]
            place = name ~ /^(methods|metrics)$/ ? name : "harness/" name
            if (system("test -d " place) != 0) say(table ": no folder " place)
        }
        if (!bad) print "includes: " n " go the way that the table says"
        exit bad
    }'
