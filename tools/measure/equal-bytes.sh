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
    # Splits the note below the table into sentences.
    { sub(/^intervals/, "Intervals"); sub(/, means include/, ". Means include"); sub(/, (settings )?model /, ". Settings: model ") }
    { print }' | "$(dirname "$0")/between.sh" "${3:-docs/equal-bytes.md}" equal-bytes
