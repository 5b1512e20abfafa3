#!/usr/bin/env bash
# make wheel: the wheel contains all that the library needs. Its module works in an environment with only numpy, outside
# the source tree, and if torch is imported before or after it.
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "the wheel"
needs_library "the wheel"
python_has "setuptools pip auditwheel" "the wheel" || exit 0
unset KVREEL_LIB PYTHONPATH

check "the wheel is built" bash tools/release/wheel.sh "$library" "$work/dist"
wheel=$(echo "$work"/dist/kvreel-*.whl)
case $wheel in
*-py3-none-manylinux_2_*) ok "the wheel's tag is py3-none-manylinux" ;;
*) fail "the wheel's tag is for this machine only: $wheel" ;;
esac
check "a second build gives a wheel of the same name" test "$(bash tools/release/wheel.sh "$library" "$work/dist" 2>"$err" | tail -n 1)" = "$wheel"

# Makes a new virtual environment and copies numpy into it, so that pip downloads nothing.
check "a new virtual environment is made" "$python" -m venv "$work/clean"
site=$("$work/clean/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))' >"$work/numpy"
for folder in "$(cat "$work/numpy")" "$(cat "$work/numpy").libs"; do
    [ ! -d "$folder" ] || cp -r "$folder" "$site/"
done
check "the wheel is installed" "$work/clean/bin/python" -m pip install -q --no-index --no-deps --disable-pip-version-check "$wheel"
mkdir "$work/elsewhere"
in_clean() { # PROGRAM ARGS...
    (cd "$work/elsewhere" && env -i PATH=/usr/bin:/bin HOME="$work/elsewhere" "$work/clean/bin/python" "$@")
}
version=$("$kvreel" version --json | jq -r .version)
check "encode, attend and predict work with only the wheel and numpy" in_clean -c "
import kvreel, numpy
assert kvreel.__file__.startswith('$work/clean'), kvreel.__file__
assert kvreel.__version__ == kvreel.library_version().split()[0] == '$version', (kvreel.__version__, kvreel.library_version())
rng = numpy.random.default_rng(0)
k, v, q = (rng.standard_normal(s, numpy.float32) for s in ((64, 4, 64), (64, 4, 64), (8, 8, 64)))
b = kvreel.Method('TURBOQUANT_PROD_4BIT').encode(k, v)
assert b.bytes()['resident'] * 3 < b.bytes()['bf16'] and numpy.isfinite(b.attend(q)).all()
assert kvreel.predict('KIVI_INT2', 'wan-1.3b', frames=42)['compression'] > 3"
check "oneDNN, libgomp and jansson are loaded from the wheel" in_clean -c "
import kvreel
kvreel.library_version()
maps = {l.split()[-1] for l in open('/proc/self/maps') if '.so' in l}
for name in 'libdnnl', 'libgomp', 'libjansson':
    paths = [p for p in maps if name in p]
    assert paths and all('/kvreel.libs/' in p for p in paths), (name, paths)"

if python_has torch "the wheel beside torch"; then
    "$python" -m pip install -q --no-index --no-deps --disable-pip-version-check --target "$work/beside" "$wheel"
    three_threads
    for order in "torch, kvreel" "kvreel, torch"; do
        check "import $order: encoding beside torch gives one hash" env PYTHONPATH="$work/beside" "$python" -c "
import $order
assert kvreel.__file__.startswith('$work/beside'), kvreel.__file__
torch.manual_seed(0)
k, v = torch.randn(512, 4, 64), torch.randn(512, 4, 64)
hashes = set()
for _ in range(3):
    (k.flatten(1) @ v.flatten(1).T).sum().item()
    hashes.add(kvreel.Method('RTN_INT4').encode(k, v).hash())
assert len(hashes) == 1"
    done
fi
