#!/usr/bin/env bash
# tools/sass/sass_model.py reads the right numbers from machine code, on listings with known numbers.
. tests/cli/lib.sh || exit 1
has "$python" "the model of machine code" || exit 0
# Converts lines "STALL INSTRUCTION", and labels, to a listing as nvdisasm -hex writes it.
listing() {
    printf '\t//----- nvinfo : EIATTR_REGCOUNT\n\t.word\tindex@(_Z%d%sILi128EEvv)\n\t.word\t0x000000a8\n' ${#1} "$1"
    printf '\t.section\t.text._Z%d%sILi128EEvv,"ax",@progbits\n.text._Z%d%sILi128EEvv:\n' ${#1} "$1" ${#1} "$1"
    awk '/^\.L/ { print; next }
        { stall = $1; $1 = ""; at = n++ * 16
          # Scoreboard number 7 (for writes and for reads) means none; the wait mask is 0.
          printf "        /*%04x*/                  %s ;    /* 0x0000000000000000 */\n", at, $0
          printf "                                        /* 0x%x0000000000 */\n", 2 * (stall + 7 * 32 + 7 * 256) }'
}
model() { # STATUS NAME ARGUMENT...
    "$python" tools/sass/sass_model.py "$work/k.hex" "${@:3}" >"$out" 2>"$err"
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
model 0 "a kernel with HMMA instructions"
check "the name of the kernel is printed" test "$(row kernel)" = "attend<128>"
check "the shortest path of a tile has two MMAs" test "$(row 'products a tile')" = 2
check "the shortest path has five instructions" test "$(row instructions)" = 5
check "the fixed stalls are 10 cycles" test "$(row 'fixed stalls')" = 10
check "the kernel has one local memory operation" test "$(row 'local memory')" = 1
check "the kernel has 168 registers" test "$(row registers)" = 168
check "the code has 176 bytes" test "$(row 'code, B')" = 176
# Two MMAs use the tensor pipe for 6 cycles each, and two warps share the pipe.
check "the MMAs bound the time" awk -v c="$(row 'cycles (model)')" 'BEGIN { exit !(c >= 22 && c <= 26) }'
printf 'attend<128>\t14\t176\t1\t3\tLDS>=1\n' >"$work/limits"
model 0 "a limit for the path that decodes, in three rounds" --limits "$work/limits"
check "the path that decodes has 14 instructions" test "$(row instructions)" = 14
check "the path that decodes has five MMAs" test "$(row 'products a tile')" = 5
printf 'attend<128>\t13\t100\t0\t3\tLDS>=1\n' >"$work/limits"
model 1 "numbers above their limits" --limits "$work/limits"
says "the error names kernel, number and limit" 'attend<128>: 14 instructions a tile, limit 13'
says "the error has the size of the code" 'attend<128>: 176 bytes of code, limit 100'
says "the error has the local memory operations" 'attend<128>: 1 local memory operations, limit 0'
printf 'other<128>\t13\t100\t0\t1\n' >"$work/limits"
model 1 "limits for a kernel that is missing" --limits "$work/limits"
says "the error says that no kernel has these limits" 'no kernel matches a line of .*limits'
printf 'attend<128>\t14\t176\t1\t3\tHMMA.16816.F32.BF16>=3\n' >"$work/limits"
model 0 "limits for a path with three HMMA instructions" --limits "$work/limits"
printf 'attend<128>\t14\t176\t1\t3\tSTS.128>=1\n' >"$work/limits"
model 1 "limits for a path with an STS.128, which is missing" --limits "$work/limits"
printf 'attend<128>\t13\t100\t0\t1\tLDG>=1\n' >"$work/limits"
model 1 "limits for a path with an LDG, which is missing" --limits "$work/limits"
# A warpgroup's wgmma counts as 16 MMAs of 16 x 8 x 16 per warp. It uses the tensor core for 1.1 x 64 cycles,
# asynchronously until the wait. The eight MUFU instructions after the wait use another pipe for 8 x 8 cycles.
{
    echo '.L_x_1:'
    echo '1 BAR.SYNC.DEFER_BLOCK R2, 0x100'
    echo '1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT'
    echo '1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0'
    echo '1 BAR.ARV R3, 0x100'
    echo '1 WARPGROUP.DEPBAR.LE gsb0, 0x0'
    for _ in 1 2 3 4 5 6 7 8; do echo '1 MUFU.EX2 R4, R4'; done
    echo '5 @P2 BRA `(.L_x_1)'
    echo '1 EXIT'
} | listing groups >"$work/k.hex"
model 0 "a kernel with wgmma instructions" --warps 2
check "wgmma instructions count as MMAs of warps" test "$(row 'products a tile')" = 32
check "two warpgroups that alternate keep the tensor cores busy" \
    awk -v c="$(row 'cycles (model)')" 'BEGIN { exit !(c >= 275 && c <= 305) }'
check "the cycles of the tensor cores are printed" test "$(row 'tensor cores, cycles')" = 282
check "the issue cycles are printed" test "$(row 'issue, cycles')" = 28
printf 'groups<128>\t14\t240\t0\t1\ttensor<=1.15\n' >"$work/limits"
model 0 "two warpgroups stay within 1.15 times the time of the tensor cores" --limits "$work/limits"
sed -i 's/^\(  *.\*[0-9a-f]*\*.  *\)BAR.ARV.*;/\1NOP ;/; s/^\(  *.\*[0-9a-f]*\*.  *\)BAR.SYNC.*;/\1NOP ;/' "$work/k.hex"
model 1 "one warpgroup exceeds 1.15 times the time of the tensor cores" --warps 1 --limits "$work/limits"
says "the error has the limit of 1.15" 'of the time of its tensor cores, limit 1.15'
# A producer warp that decodes takes issue slots of the consumer warps, and they wait for the producer.
listing pipeline <<'CODE' >"$work/k.hex"
.L_x_1:
1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0
1 WARPGROUP.DEPBAR.LE gsb0, 0x0
5 @P2 BRA `(.L_x_1)
.L_x_2:
10 LDG.E.64 R4, [R2]
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
15 PRMT R6, R4, R5, R6
10 STS.128 [R7], R8
5 @P2 BRA `(.L_x_2)
1 EXIT
CODE
printf 'pipeline<128>\t14\t400\t0\t1\ttensor<=9\n' >"$work/limits"
model 0 "a pipeline without its producer" --limits "$work/limits"
alone=$(row 'cycles (model)')
printf 'pipeline<128>\t14\t400\t0\t1\ttensor<=9\tdecodes:STS.128>=1\tdecodes:LDG>=1\n' >"$work/limits"
model 0 "a pipeline with its producer" --limits "$work/limits"
check "the instructions of the producer are counted" test "$(row 'and to decode')" = 15
check "the time of the producer is counted" awk -v a="$alone" -v c="$(row 'cycles (model)')" 'BEGIN { exit !(a < 155 && c > 200) }'
printf 'pipeline<128>\t14\t400\t0\t1\tdecodes:STS.128>=2\n' >"$work/limits"
model 1 "limits for a producer loop that is missing" --limits "$work/limits"
says "the error says that no loop decodes" 'no decoding loop contains'
# 13 stores of 4 warps are 26,624 bytes. Between multiprocessors, 14.4 bytes move per cycle.
sed -i 's/PRMT R6, R4, R5, R6/STS.128 [R7], R8/' "$work/k.hex"
printf 'pipeline<128>\t14\t400\t0\t1\tdecodes:STS.128>=13\n' >"$work/limits"
model 0 "a producer with 13 stores" --limits "$work/limits"
check "stores to local shared memory take less than 500 cycles" awk -v c="$(row 'cycles (model)')" 'BEGIN { exit !(c < 500) }'
printf 'pipeline<128>\t14\t400\t0\t1\tpair\tdecodes:STS.128>=13\n' >"$work/limits"
model 0 "a producer of a pair of CTAs" --limits "$work/limits"
check "stores to the other CTA take the time of moving 26,624 bytes" \
    awk -v c="$(row 'cycles (model)')" 'BEGIN { exit !(c >= 1843 && c <= 1853) }'
# The epilogue of a tile is the code between the MMA loop and the next tile's loop. The model ignores loops that only
# retry an mbarrier wait, but not loops that contain an mbarrier arrival.
listing layer <<'CODE' >"$work/k.hex"
.L_x_0:
1 MOV R1, R2
.L_x_1:
1 SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2
1 @!P0 BRA `(.L_x_4)
1 HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0
1 WARPGROUP.DEPBAR.LE gsb0, 0x0
1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R3], RZ
1 ISETP.NE.AND P2, PT, R1, RZ, PT
5 @P2 BRA `(.L_x_1)
1 FADD R4, R4, R5
1 @P1 BRA `(.L_x_3)
.L_x_2:
1 FADD R4, R4, R5
1 STG.E.64 [R6], R4
5 @P3 BRA `(.L_x_2)
.L_x_3:
5 @P4 BRA `(.L_x_0)
1 EXIT
.L_x_4:
1 SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2
5 BRA `(.L_x_1)
CODE
printf 'layer<128>\t7\t400\t0\t1\tfinish:STG.E.64>=1\n' >"$work/limits"
model 0 "a matrix product with an epilogue" --limits "$work/limits"
check "a step has seven instructions" test "$(row instructions)" = 7
check "a matrix product has no rate of attention" test "$(row 'TFLOP/s (model)')" = -
check "the loop of the epilogue counts twice, for both halves" grep -q '^layer<128>: 9 instructions, ' "$out"
check "the rates of a network's layers are printed" grep -q '4680 x 1536 x 8960 [0-9]* TFLOP/s' "$out"
printf 'layer<128>\t7\t400\t0\t1\tfinish:STG.E.64>=3\n' >"$work/limits"
model 1 "limits for an epilogue that is missing" --limits "$work/limits"
says "the error says that no path finishes" 'no path after its loop contains'
# Of two nested loops, over spans and over tiles, the model takes the inner one as the loop of a tile.
listing spans <<'CODE' >"$work/k.hex"
.L_x_1:
1 STS [R5], R6
.L_x_2:
1 HMMA.16816.F32.BF16 R4, R8, R10, R4
5 @P1 BRA `(.L_x_2)
5 @P2 BRA `(.L_x_1)
1 EXIT
CODE
model 0 "a kernel with nested loops"
check "a tile has only the instructions of the inner loop" test "$(row instructions)" = 2
# The model computes how many of 132 multiprocessors are busy, and for how long. 444 blocks of 512 tiles are divided
# as in tests/cache/test_split.c.
check "blocks are split and assigned to multiprocessors" "$python" -c '
import sys; sys.path.insert(0, "tools/sass")
import sass_model as m
assert m.cut(444, 512) == [512] * 396 + [103 + 4] * 48 * 4 + [100 + 4] * 48
assert m.cut(264, 512) == [512] * 264 and m.cut(12, 2) == [2] * 12
assert m.makespan([10] * 132, [5]) == 50 and m.makespan([10] * 133, [5]) == 100
assert m.makespan([10] * 264, [3, 5]) == 50
# With 133 blocks on 132 multiprocessors, one multiprocessor runs two blocks, and both are slower meanwhile.
assert m.makespan([10] * 132 + [4], [3, 5]) == 4 * 5 + 6 * 3'
# IGMMA multiplies 32 columns of 8-bit integers in the time in which HGMMA multiplies 16 columns of BF16.
check "8-bit MMAs take half the time of BF16 MMAs" "$python" -c '
import sys; sys.path.insert(0, "tools/sass")
import sass_model as m
bf16 = m.Instruction(0, "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24")
byte = m.Instruction(0, "IGMMA.64x128x32.U8.U8 R24, R148, gdesc[UR8], R24, gsb0")
assert (m.products(bf16), m.products(byte)) == (16, 32)
assert m.held_by(bf16) == m.held_by(byte) == 64 * 1.1'
# The model's constants (1.1 times the peak time per product, and the overhead of a block and a launch) reproduce
# times measured on an H100.
check "the constants of the model reproduce times of an H100" python3 -c '
import sys; sys.path.insert(0, "tools/sass")
import sass_model as m
def near(got, measured, share):
    assert abs(got / measured - 1) <= share, (got, measured)
near(m.attention_rate(4680, 2495, True), 562, .02)
near(m.attention_rate(9360, 2495, True), 631, .02)
near(140 * 1111 + 7925, 163700, .01) # cycles per tile of linear_wgmma<2>
near(2 * 4680 * 1536 * 8960 / (m.layer_cycles((4680, 1536, 8960), 1111, 7925) / m.CLOCK) / 1e12, 641, .05)
near(2 * 4680 * 4608 * 1536 / (m.layer_cycles((4680, 4608, 1536), 2186, 4639) / m.CLOCK) / 1e12, 335, .05)
near(m.attention_cycles(23400, 2873, True) / m.attention_cycles(23400, 2495, True), 1.152, .05)
near(m.attention_cycles(23400, 3178, True) / m.attention_cycles(23400, 2495, True), 1.209, .05)
near(m.attention_cycles(23400, 3408, True) / m.attention_cycles(23400, 2495, True), 1.317, .05)'
echo 'nothing' >"$work/k.hex"
model 1 "a listing without kernels"
says "the error says that there is no kernel" 'no kernel with a loop of tensor products'
check "sass-limits.txt is read" "$python" -c '
import sys; sys.path.insert(0, "tools/sass")
import sass_model as m
sys.exit(len(list(m.limits_of("tools/sass/sass-limits.txt"))) < 2)'
