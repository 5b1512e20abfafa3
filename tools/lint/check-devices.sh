#!/usr/bin/env bash
# check-devices.sh - nobody asks which device it is: fails on a comparison with a backend.
#
#     tools/lint/check-devices.sh [ROOT]
#
# What differs by device is a function in a table [KVR_N_BACKENDS], or a fact that a device is asked
# for (harness/device/dev.h). Files that are of one device, and say so in their names (*_cuda*), may
# use its stream; nobody may branch on there being one.
set -euo pipefail

cd "${1:-$(dirname "$0")/../..}"
backend='KVR_(CPU|CUDA|N_BACKENDS)\b'
stream='kvr_dev_stream\([^()]*\)'
banned="([!=]=|<=?|>=?) *$backend|$backend *([!=]=|[<>])|case $backend"
banned+="|(\bif|\bwhile) \(!?$stream|(&&|\|\||!|\breturn) *$stream|$stream *(\?|&&|\|\||[!=]=)"
banned+="|\b(is|on|has|in)_(cuda|gpu|cpu)\("

if find harness methods metrics -path harness/device -prune -o -type f -name '*.[ch]' -print0 | sort -z |
    xargs -0 grep -nE "$banned" /dev/null; then
    echo "devices: a table or a fact of harness/device/dev.h says this without asking which device it is"
    exit 1
fi
echo "devices: nobody asks which"
