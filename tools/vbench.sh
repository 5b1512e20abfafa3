#!/bin/sh
# vbench.sh - VBench's scores of one video, as a sweep's metric of a program of its own.
#
#     sh tools/vbench.sh VIDEO DIMENSION...     {"imaging_quality": 0.7394}
#
# Needs the program `vbench` (or $VBENCH) and its networks, which one run by hand fetches: a sweep's
# programs have no network of their own. Scores are those of its sums: of one video they are the
# video's own, between 0 and 1.
set -eu
[ $# -ge 2 ] || { echo "usage: vbench.sh VIDEO DIMENSION..." >&2; exit 2; }
video=$1
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
command -v "${VBENCH:-vbench}" >/dev/null || { echo "vbench.sh: no program '${VBENCH:-vbench}'" >&2; exit 127; }
"${VBENCH:-vbench}" evaluate --mode custom_input --videos_path "$video" --dimension "$@" --output_path "$out" >&2
# {dimension: [sum, [{video_path, video_results}]], ...}; VBench brings Python, not jq.
python3 - "$out"/*_eval_results.json <<'PY'
import json, sys
print(json.dumps({name: found[0] for path in sys.argv[1:] for name, found in json.load(open(path)).items()}))
PY
