#!/usr/bin/env bash
# kvreel's methods agree with the code of each other project that is installed (`make peers` installs all).
. tests/cli/lib.sh || exit 1
. tests/cli/python.sh || exit 1
needs_python "peers' own code"
needs_library "peers' own code"
KVREEL=$kvreel bash tools/peers/oracles.sh --python "$python" >"$out" 2>"$err"
rc=$?
grep -E '^(ok|FAIL|skip) - ' "$out"
n_failed=$((n_failed + $(grep -c '^FAIL - ' "$out")))
check "each comparison with a project reports a result" test "$(grep -cE '^(ok|skip) - ' "$out")" -ge 5
check "the exit status agrees with the results" test "$rc" -eq "$([ "$n_failed" -eq 0 ] && echo 0 || echo 1)"
# Comparing with another method (Q4_0 in place of Q8_0) is reported as a disagreement.
if grep -q "^ok - Q8_0" "$out"; then
    sed 's/row in ("Q8_0", .*/row in ("Q8_0",):/; s/decoded(row,/decoded("Q4_0",/' tools/peers/oracle_gguf.py >"$work/oracle_wrong.py"
    cp tools/peers/oracle.py "$work/"
    sed -i "s|^ROOT = .*|ROOT = pathlib.Path('$root')|" "$work/oracle.py"
    check "a wrong method is reported as a disagreement" bash -c "! KVREEL='$kvreel' '$python' '$work/oracle_wrong.py'"
fi
