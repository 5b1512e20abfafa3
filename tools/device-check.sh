#!/usr/bin/env bash
# device-check.sh - tests and measures the CUDA kernels on a machine with a GPU and a driver. A machine with nvcc
# builds the package, so that the machine with the GPU builds nothing.
#
#     tools/device-check.sh --pack FILE [--emulated]   builds an archive: kvreel, kernels, tests, libraries (tools/device/pack.sh)
#     tools/device-check.sh --run FILE OUT             unpacks and runs the archive; results are in OUT (tools/device/run.sh)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

case ${1:-} in
--pack)
    shift
    exec bash tools/device/pack.sh "$@"
    ;;
--run) ;;
*)
    sed -n 's/^#     //p' "$0" >&2
    exit 2
    ;;
esac
if [ ! -f "${2:-}" ] || [ -z "${3:-}" ]; then
    echo "device-check: --run needs an archive of --pack and a folder" >&2
    exit 2
fi
checkout=$PWD
mkdir -p "$3"
to=$(realpath "$3")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if [[ $2 == *.tar ]] || command -v xz >/dev/null; then
    tar -C "$place" -xf "$2"
else
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="tar")' "$2" "$place"
fi || exit 2
# Links the checkout's fixtures and models, which the package does not contain.
for f in tests/fixtures models/*; do
    [ -e "$place/$f" ] || [ ! -e "$f" ] || { mkdir -p "$(dirname "$place/$f")" && ln -s "$checkout/$f" "$place/$f"; }
done
if [ -n "${DONE:-}" ]; then # run.sh changes to the package's folder, so paths must be absolute
    read -ra done_files <<<"$DONE"
    DONE=$(realpath -m "${done_files[@]}" | paste -sd ' ')
    export DONE
fi
bash "$place/tools/device/run.sh" "$to"
