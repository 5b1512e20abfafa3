#!/usr/bin/env bash
# equal-bytes.sh - writes a database's table equal_bytes between the markers of docs/equal-bytes.md.
#
#     build/kvreel run configs/budget-nano.yaml
#     tools/measure/equal-bytes.sh KVREEL out/budget-nano.db [FILE]     FILE: default docs/equal-bytes.md
set -euo pipefail

# Keeps the columns method, bits, SSIM and tie, and prints each budget once, as a row above its methods.
"$1" report --db "$2" --table equal_bytes --format md | awk '
    /^\| method / { next }
    /^\|---/ { next }
    /^\| / {
        n = split($0, cell, / \| /)
        budget = cell[n]
        sub(/ \|$/, "", budget)
        if (last == "")
            print "| method | bits | SSIM [95 %] | tie |\n|---|---:|---:|---|"
        if (budget != last)
            print "| **" budget "** |"
        last = budget
        gsub(/, 1\.0000\]/, ", 1]", cell[3])
        sub(/ fit=[0-9.]+$/, "", cell[1])
        sub(/ recent=2/, "", cell[1])
        sub(/ frames=[0-9.]+/, "", cell[1])
        print cell[1] " | " cell[2] " | " cell[3] " | " cell[4] " |"
        next
    }
    # Notes below the table begin with a capital letter.
    { sub(/^(settings )?model /, "settings: model "); print toupper(substr($0, 1, 1)) substr($0, 2) }' | "$(dirname "$0")/between.sh" "${3:-docs/equal-bytes.md}" equal-bytes
