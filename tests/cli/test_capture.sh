#!/usr/bin/env bash
# tools/capture/kvtrace.py and the examples that use it compile, and with PyTorch they run.
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "the recorder for PyTorch"
for example in tools/capture/kvtrace.py examples/trace/*.py; do
    check "$example compiles" "$python" -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$example"
done
check "kvtrace.py imports only PyTorch and the standard library" test -z "$(sed -n 's/^import \(.*\)/\1/p; s/^from \([a-z]*\).*/\1/p' tools/capture/kvtrace.py |
    grep -vxE 'contextlib|ctypes|hashlib|json|math|os|struct|torch')"
python_has torch "the recorder for PyTorch" || exit 0
runs_python tests/python/test_capture.py "$kvreel" "$work" "$root"
