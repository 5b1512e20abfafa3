# shellcheck shell=bash
# python.sh - for tests in Python, after lib.sh: $python is an interpreter with numpy, or the script
# ends here and says what it skipped. KVREEL_PYTHON names another one (tools/test/test-python.sh).

library=$(dirname "$kvreel")/libkvreel.so

needs_python() { # WHAT
    has "$python" "$1" && python_has numpy "$1" || exit 0
    export PYTHONPATH=$root/python:$root/tests/python PYTHONDONTWRITEBYTECODE=1 KVREEL_LIB=$library KVREEL_PYTHON=$python
}

needs_library() { # WHAT: the library inside Python; a sanitizer's runtime would have to be there first
    case $library in
    */build-*)
        skip "$1" "the library was built with sanitizers"
        exit 0
        ;;
    esac
    [ -s "$library" ] || {
        fail "$1: no $library (make lib)"
        exit 1
    }
}

# Its lines are ours.
runs_python() { # FILE ARGS...
    "$python" "$@" >"$out" 2>"$err"
    local rc=$?
    grep -E '^(ok|FAIL|skip) - ' "$out"
    n_failed=$((n_failed + $(grep -c '^FAIL - ' "$out")))
    grep -qE '^(ok|FAIL|skip) - ' "$out" || fail "$1 checks nothing"
    [ "$rc" -eq 0 ] || grep -q '^FAIL - ' "$out" || fail "$1 ends with $rc: $(tail -n 5 "$err")"
}
