#!/usr/bin/env bash
# fetch-stlpips.sh - downloads the weights of the metric stlpips.
#
#     make metric-stlpips [PIP="python3 -m pip"]
#
# The weights come from the Python wheel of the metric's authors (stlpips_pytorch 0.0.2, BSD-2-Clause, 64 MB). git
# ignores the file.
set -euo pipefail
file=alex_shift_tolerant.pth
exec bash "$(dirname "$0")/fetch-wheel.sh" metric-stlpips stlpips_pytorch 0.0.2 \
    a412bf901a97c942b37af57c7c63b6e5d1aebfe8d1dfc17853d4b2f878630645 "stlpips_pytorch/weights/vST0.0/$file" \
    b356b382f96010f77d085ee8343ecd9fd322d0a56e8de2b2d0549fafcad8b9ee "models/stlpips/$file"
