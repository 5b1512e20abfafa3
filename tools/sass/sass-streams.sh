#!/usr/bin/env bash
# sass-streams.sh - checks the machine code of codecs and of the forward's passes against
# tools/sass/sass-streams.txt: code that fits the instruction cache, no spills, and for the kernels named
# there the modelled rate beside a copy (sass_stream.py).
#
#     tools/sass/sass-streams.sh [--markdown]
#
# Needs what tools/sass/sass.sh needs; without it the exit status is 77.
set -uo pipefail
. "$(dirname "$0")/machine-code.sh"
for source in methods/*/*.cu methods/codecs/*/*.cu harness/engine/*.cu; do
    machine_code "$source" sm_90 || exit 1
done
python3 tools/sass/sass_stream.py "$work"/*.hex --limits tools/sass/sass-streams.txt "$@"
