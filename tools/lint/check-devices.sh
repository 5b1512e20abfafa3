#!/usr/bin/env bash
# check-devices.sh - fails if code compares a device's backend.
#
#     tools/lint/check-devices.sh [ROOT]
#
# A difference between devices belongs in a function table [KVR_N_BACKENDS] or in a property of the device
# (harness/device/dev.h). CUDA-only files (*_cuda* in the name) may use the device's stream. No file may branch on
# whether a device has a stream.
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
