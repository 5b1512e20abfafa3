#!/usr/bin/env bash
# What tools/sass_model.py reads out of machine code, on a listing whose numbers are known.
. tests/cli/lib.sh || exit 1
if ! command -v python3 >/dev/null; then
    echo "skip - there is no python3"
    exit 0
fi
# An instruction a line: stall, then its text; labels as they are. As nvdisasm -hex prints them.
listing() {
    printf '\t.section\t.text._Z%d%sILi128EEvv,"ax",@progbits\n.text._Z%d%sILi128EEvv:\n' ${#1} "$1" ${#1} "$1"
    awk '/^\.L/ { print; next }
        { stall = $1; $1 = ""; at = n++ * 16
          # Nothing is written or read behind a scoreboard: 7 and 7; waits for none.
          printf "        /*%04x*/                  %s ;    /* 0x0000000000000000 */\n", at, $0
          printf "                                        /* 0x%x0000000000 */\n", 2 * (stall + 7 * 32 + 7 * 256) }'
}
model() { # STATUS NAME ARGUMENT...
    python3 tools/sass_model.py "$work/k.hex" "${@:3}" >"$out" 2>"$err"
    check "$2" test $? -eq "$1"
}
listing attend <<'CODE' >"$work/k.hex"
1 MOV R1, R2
.L_x_1:
1 HMMA.16816.F32.BF16 R4, R8, R10, R4
1 HMMA.16816.F32.BF16 R12, R8, R10, R12
1 @P0 BRA `(.L_x_3)
.L_x_2:
1 LDS R3, [R4]
1 HMMA.16816.F32.BF16 R4, R8, R10, R4
1 @P1 BRA `(.L_x_2)
.L_x_3:
2 STS [R5], R6
5 @P2 BRA `(.L_x_1)
1 STL [R1], R9
1 EXIT
CODE
row() { awk -F'\t' -v c="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == c) n = i } NR == 2 { print $n }' "$out"; }
model 0 "a kernel with products"
check "its name" test "$(row kernel)" = "attend<128>"
check "products of a tile without a correction" test "$(row 'products a tile')" = 2
check "and instructions of the shortest way" test "$(row instructions)" = 5
check "what the code fixes of its time" test "$(row 'fixed stalls')" = 10
check "local memory" test "$(row 'local memory')" = 1
check "bytes of code" test "$(row 'code, B')" = 176
# Two products hold their pipe for 6 cycles each, and two warps share it.
check "the products bound the time" awk -v c="$(row 'cycles (model)')" 'BEGIN { exit !(c >= 22 && c <= 26) }'
printf 'attend<128>\t14\t176\t1\t3\tLDS>=1\n' >"$work/limits"
model 0 "a way that has to decode, three rounds" --limits "$work/limits"
check "has the loop's instructions" test "$(row instructions)" = 14
check "and products" test "$(row 'products a tile')" = 5
printf 'attend<128>\t13\t100\t0\t3\tLDS>=1\n' >"$work/limits"
model 1 "what is beyond a limit" --limits "$work/limits"
says "names kernel, number and limit" 'attend<128>: 14 instructions a tile, limit 13'
says "and the code" 'attend<128>: 176 bytes of code, limit 100'
says "and local memory" 'attend<128>: 1 local memory operations, limit 0'
printf 'other<128>\t13\t100\t0\t1\n' >"$work/limits"
model 1 "limits of no kernel" --limits "$work/limits"
says "say so" 'no kernel is one that .* limits'
printf 'attend<128>\t14\t176\t1\t3\tHMMA.16816.F32.BF16>=3\n' >"$work/limits"
model 0 "a way that has an instruction of one kind" --limits "$work/limits"
printf 'attend<128>\t14\t176\t1\t3\tSTS.128>=1\n' >"$work/limits"
model 1 "of a kind that is nowhere" --limits "$work/limits"
printf 'attend<128>\t13\t100\t0\t1\tLDG>=1\n' >"$work/limits"
model 1 "instructions that are nowhere" --limits "$work/limits"
echo 'nothing' >"$work/k.hex"
model 1 "a listing without kernels"
says "is named" 'no kernel with a loop of tensor products'
check "the limits that are kept are read" python3 -c '
import sys; sys.path.insert(0, "tools")
import sass_model as m
sys.exit(len(list(m.limits_of("tools/sass-limits.txt"))) < 2)'
