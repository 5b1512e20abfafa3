#!/usr/bin/env bash
# tools/lint/check-sizes.sh: functions above 60 lines and files above 900 fail, unless the baseline lists them.
. tests/cli/lib.sh || exit 1

check "check-sizes.sh accepts the repository" bash tools/lint/check-sizes.sh
tree=$work/tree
mkdir -p "$tree/tools/lint" "$tree"/{harness,methods,metrics,plots}
: >"$tree/tools/lint/sizes.baseline"
lines() { seq "$1" | sed 's/.*/    x++;/'; }
long() { # NAME LINES: a function whose signature has two lines, after an array and a struct of 70 lines each
    printf 'static const int table[] = {\n'
    lines 70
    printf '};\n\nstruct s\n{\n'
    lines 70
    printf '};\n\n/* f(x) */\nstatic __global__ void __launch_bounds__(1)\n    %s(int x, int y)\n{\n' "$1"
    lines "$2"
    printf '}\n'
}
sizes() { bash "$root/tools/lint/check-sizes.sh" "$tree" >"$out" 2>&1; }
long short 60 >"$tree/harness/a.cu"
check "60 lines, a table and a struct pass" sizes
long kernel 61 >"$tree/harness/a.cu"
check "a function of 61 lines fails" bash -c "! bash '$root/tools/lint/check-sizes.sh' '$tree' >'$out'"
check "the error names the function" grep -q '^harness/a.cu: kernel() has 61 lines' "$out"
echo 'harness/a.cu kernel 61' >"$tree/tools/lint/sizes.baseline"
check "the baseline allows a function of 61 lines" sizes
long kernel 62 >"$tree/harness/a.cu"
check "a function longer than the baseline allows fails" bash -c "! bash '$root/tools/lint/check-sizes.sh' '$tree' >'$out'"
long kernel 60 >"$tree/harness/a.cu"
check "a baseline entry that is not needed fails" bash -c "! bash '$root/tools/lint/check-sizes.sh' '$tree' >'$out'"
rm "$tree/harness/a.cu"
: >"$tree/tools/lint/sizes.baseline"
lines 901 >"$tree/methods/b.c"
check "a file of 901 lines fails" bash -c "! bash '$root/tools/lint/check-sizes.sh' '$tree' >'$out'"
check "the error names the file" grep -q '^methods/b.c has 901 lines' "$out"
