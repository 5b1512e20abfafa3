#!/usr/bin/env bash
# sass-streams.sh - checks the machine code of codec and forward kernels. The code must fit the instruction cache and
# must not spill registers. For kernels in tools/sass/sass-streams.txt, sass_stream.py also compares the modelled
# rate, relative to a copy, with the limit given there.
#
#     tools/sass/sass-streams.sh [--markdown]
#
# The script needs the tools of tools/sass/sass.sh; if one is missing, the exit status is 77.
set -uo pipefail
. "$(dirname "$0")/machine-code.sh"
for source in methods/*/*.cu methods/codecs/*/*.cu harness/engine/*.cu; do
    machine_code "$source" sm_90 || exit 1
done
python3 tools/sass/sass_stream.py "$work"/*.hex --limits tools/sass/sass-streams.txt "$@"
