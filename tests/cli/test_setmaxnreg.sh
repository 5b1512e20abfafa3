#!/usr/bin/env bash
# tools/sass/setmaxnreg.py reads PTX, ptxas' log and machine code, and finds register counts that would hang.
. tests/cli/lib.sh || exit 1
if ! command -v python3 >/dev/null; then
    echo "skip - there is no python3"
    exit 0
fi
ptx() { # THREADS DEC INC: PTX whose setmaxnreg lowers to DEC (-: does not) and raises to INC
    printf '.visible .entry _Z1k(\n)\n.maxntid %s, 1, 1\n.minnctapersm 1\n{\n' "$1"
    printf '\tsetmaxnreg.inc.sync.aligned.u32 %s;\n' "$3"
    [ "$2" = - ] || printf '\tsetmaxnreg.dec.sync.aligned.u32 %s;\n' "$2"
    printf '}\n'
}
log() { # REGISTERS
    printf "ptxas info    : Compiling entry function '_Z1k' for 'sm_80'\nptxas info    : Used 40 registers\n"
    printf "ptxas info    : Compiling entry function '_Z1k' for 'sm_90a'\nptxas info    : Used %s registers, used 1 barriers\n" "$1"
}
sass() { # REGISTERS THREADS DEC INC: machine code whose setmaxnreg lowers to DEC and raises to INC
    printf '\t//----- nvinfo : EIATTR_REGCOUNT\n        /*0004*/ \t.word\tindex@(_Z1k)\n        /*0008*/ \t.word\t0x%08x\n' "$1"
    printf '\t.section\t.nv.info._Z1k,"",@"SHT_CUDA_INFO"\n\t//----- nvinfo : EIATTR_MAX_THREADS\n'
    printf '        /*03fc*/ \t.word\t0x%08x\n        /*0400*/ \t.word\t0x00000001\n        /*0404*/ \t.word\t0x00000001\n' "$2"
    printf '\t.section\t.text._Z1k,"ax",@progbits\n.text._Z1k:\n'
    printf '        /*0380*/  USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0x%x ;  /* 0x0 */\n' "$4"
    printf '        /*90e0*/  USETMAXREG.DEALLOC.CTAPOOL 0x%x ;  /* 0x0 */\n' "$3"
}
fits() { # STATUS NAME
    python3 tools/sass/setmaxnreg.py --log "$work/k.log" "$work/k.ptx" >"$out" 2>"$err"
    check "$2" test $? -eq "$1"
}
log 168 >"$work/k.log"
for split in "120 192 0" "104 200 0" "24 240 0" "128 192 1" "112 200 1" "24 248 1"; do
    read -r dec inc status <<<"$split"
    ptx 384 "$dec" "$inc" >"$work/k.ptx"
    fits "$status" "PTX: $dec + 2 x $inc of 3 x 168"
    [ "$status" = 0 ] || says "the error has the sum $dec + 2 x $inc" "_Z1k: $dec \+ 2 x $inc registers per thread, but the launch allocates 3 x 168"
    sass 168 384 "$dec" "$inc" >"$work/k.hex"
    python3 tools/sass/setmaxnreg.py "$work/k.hex" >"$out" 2>"$err"
    check "SASS: $dec + 2 x $inc of 3 x 168" test $? -eq "$status"
done
ptx 384 120 192 >"$work/k.ptx"
log 160 >"$work/k.log"
fits 1 "a kernel that got fewer registers than its launch bounds allow"
log 168 | grep -v sm_90a >"$work/k.log"
sed -i 's/168/40/' "$work/k.log"
fits 1 "a log for another architecture"
says "the error says that the number of registers is unknown" 'the number of its registers is unknown'
log 168 >"$work/k.log"
ptx 384 - 176 >"$work/k.ptx"
fits 1 "a producer that gives up no registers"
ptx 512 24 160 >"$work/k.ptx"
fits 0 "three consumers"
ptx 400 24 160 >"$work/k.ptx"
fits 1 "a number of threads that is no multiple of a warpgroup"
ptx 384 24 240 >"$work/k.ptx"
echo "ptxas warning : setmaxnreg ignored to maintain minimum register requirements." >>"$work/k.log"
fits 1 "a setmaxnreg that ptxas ignored"
says "the error has the warning of ptxas" 'setmaxnreg ignored'
log 168 >"$work/k.log"
printf '.visible .entry _Z1k(\n)\n{\n}\n' >"$work/k.ptx"
fits 1 "a kernel without setmaxnreg"
says "the error says that no kernel has a setmaxnreg" 'no kernel in .* has a setmaxnreg'
