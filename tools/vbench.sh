#!/bin/sh
# vbench.sh - prints VBench's scores of one video, for use as an external metric of a sweep.
#
#     sh tools/vbench.sh VIDEO DIMENSION...     {"imaging_quality": 0.7394}
#
# The script needs the program `vbench` (or $VBENCH). Run it once by hand first: it downloads its networks,
# and a sweep's metric programs have no network access. The output has VBench's aggregate scores, 0 to 1,
# which for one video are the video's scores.
set -eu
[ $# -ge 2 ] || { echo "usage: vbench.sh VIDEO DIMENSION..." >&2; exit 2; }
video=$1
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
command -v "${VBENCH:-vbench}" >/dev/null || { echo "vbench.sh: no program '${VBENCH:-vbench}'" >&2; exit 127; }
"${VBENCH:-vbench}" evaluate --mode custom_input --videos_path "$video" --dimension "$@" --output_path "$out" >&2
# VBench's file is {dimension: [aggregate, [{video_path, video_results}]], ...}. Python parses it: VBench requires
# Python, but jq may be missing.
python3 - "$out"/*_eval_results.json <<'PY'
import json, sys
print(json.dumps({name: found[0] for path in sys.argv[1:] for name, found in json.load(open(path)).items()}))
PY
