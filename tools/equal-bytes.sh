#!/usr/bin/env bash
# equal-bytes.sh - put the table of a database between the markers of docs/equal-bytes.md.
#
#     build/kvreel run configs/budget-nano.yaml
#     tools/equal-bytes.sh KVREEL out/budget-nano.db [FILE]     FILE: default docs/equal-bytes.md
set -euo pipefail

"$1" report --db "$2" --table equal_bytes --format md |
    "$(dirname "$0")/between.sh" "${3:-docs/equal-bytes.md}" equal-bytes
