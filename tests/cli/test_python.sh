#!/usr/bin/env bash
# The Python module kvreel gives the same codes, attention, predictions and results as the program.
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "the Python module"
needs_library "the Python module"

common_config "$work/common.yaml"
shared_sweep "$work/common.yaml" "$work/db" "$work/out"
runs_python tests/python/test_module.py "$kvreel" "$work/db" "$work"

# pip installs the module from the source folder, with the library inside.
if python_has "pip setuptools" "pip install"; then
    mkdir -p "$work/tree/build"
    cp -r python "$work/tree/"
    cp "$library" "$work/tree/build/"
    check "pip install" "$python" -m pip install -q --no-index --no-deps --no-build-isolation --no-cache-dir \
        --disable-pip-version-check --root-user-action=ignore --target "$work/site" "$work/tree/python"
    unset KVREEL_LIB
    check "the installed module works outside the source folder" sh -c "cd / && PYTHONPATH=$work/site '$python' -c '
import kvreel, numpy
assert kvreel.__file__.startswith(\"$work/site\")
x = numpy.ones((16, 1, 64), numpy.float32)
assert kvreel.encode(\"RTN_INT4\", x, x).bytes()[\"resident\"] > 0'"
fi

# kvreel and torch can be imported in either order. Both start threads, and torch uses most of the static TLS.
if python_has torch "beside torch"; then
    three_threads
    for order in "torch, kvreel" "kvreel, torch"; do
        check "kvreel and torch work after import $order" env KVREEL_LIB="$library" "$python" -c "
import $order
k, v = torch.randn(512, 4, 64), torch.randn(512, 4, 64)
(k.flatten(1) @ v.flatten(1).T).sum().item()
a = kvreel.Method('TURBOQUANT_PROD_4BIT').encode(k, v)
(k.flatten(1) @ v.flatten(1).T).sum().item()
assert a.hash() == kvreel.Method('TURBOQUANT_PROD_4BIT').encode(k, v).hash()"
    done
fi

# The module's caches work in the pipelines of other projects.
export KVREEL_LIB=$library
runs_python tests/python/test_caches.py "$root/examples"
