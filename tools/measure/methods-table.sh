#!/usr/bin/env bash
# methods-table.sh - writes the registry's tables between the markers of docs/methods.md.
#
#     tools/measure/methods-table.sh KVREEL [FILE]    rewrites FILE (default: docs/methods.md)
set -euo pipefail

"$1" list methods --md | "$(dirname "$0")/between.sh" "${2:-docs/methods.md}" methods
