# shellcheck shell=bash
# python.sh - functions for tests in Python, sourced after lib.sh. $python is the interpreter of
# tools/test/test-python.sh; KVREEL_PYTHON selects another one.

library=$(dirname "$kvreel")/libkvreel.so

needs_python() { # NAME: ends the script, with the check NAME skipped, if $python has no numpy
    has "$python" "$1" && python_has numpy "$1" || exit 0
    export PYTHONPATH=$root/python:$root/tests/python PYTHONDONTWRITEBYTECODE=1 KVREEL_LIB=$library KVREEL_PYTHON=$python
}

needs_library() { # NAME: ends the script if $python cannot load libkvreel.so, for example one with a sanitizer
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

# Runs a Python test and adds its checks to those of this script.
runs_python() { # FILE ARGS...
    "$python" "$@" >"$out" 2>"$err"
    local rc=$?
    grep -E '^(ok|FAIL|skip) - ' "$out"
    n_failed=$((n_failed + $(grep -c '^FAIL - ' "$out")))
    grep -qE '^(ok|FAIL|skip) - ' "$out" || fail "$1 ran no checks"
    [ "$rc" -eq 0 ] || grep -q '^FAIL - ' "$out" || fail "$1 ends with $rc: $(tail -n 5 "$err")"
}
