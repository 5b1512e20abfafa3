#!/usr/bin/env bash
# test-python.sh - prints the Python interpreter that the tests use.
#
#     KVREEL_PYTHON=$(tools/test/test-python.sh)
#
# The interpreter is KVREEL_PYTHON if that is set, else that of the tests' virtual environment
# (tools/test/test-venv.sh), else the first of python3 and /usr/bin/python3 that has numpy, else python3.
venv=${KVREEL_TEST_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/kvreel/test-venv}

if [ -n "${KVREEL_PYTHON-}" ]; then
    echo "$KVREEL_PYTHON"
    exit
fi
for python in "$venv/bin/python" python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c 'import numpy' 2>/dev/null; then
        command -v "$python"
        exit
    fi
done
echo python3
