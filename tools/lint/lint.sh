#!/usr/bin/env bash
# lint.sh - checks formatting, headers that must compile alone, static analysis, and compilation by clang.
#
#     tools/lint/lint.sh           the steps that take minutes on two cores
#     tools/lint/lint.sh --all     also the steps that compile everything again: clang for every instruction set, nvcc
#     ONLY='cppcheck'              only the steps whose name matches
#
# The script names each missing tool and each step that needs --all. Any finding is a failure. tools/deps.sh
# --lint installs the tools.
set -uo pipefail

mapfile -t sources < <(git ls-files '*.c')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t cuda < <(git ls-files '*.cu' '*.cc')
mapfile -t cuda_headers < <(git ls-files '*.cuh')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
bad=0
all=
[ "${1-}" = --all ] && all=1
only=${ONLY-}
cores=$(nproc 2>/dev/null || echo 2)

step() { # name command...
    local name=$1 log start=$SECONDS
    shift
    if [ -n "$only" ] && [[ ! $name =~ $only ]]; then return; fi
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        printf 'ok    %s, %d s\n' "$name" $((SECONDS - start))
    else
        printf 'FAIL  %s, %d s\n' "$name" $((SECONDS - start))
        sed 's/^/      | /' "$log" | head -n 80
        bad=1
    fi
    rm -f "$log" "$log.files"
}

have() { # tool what-for
    command -v "$1" >/dev/null && return 0
    echo "skip  $2: $1 is not installed"
    return 1
}

warn=(-Wall -Wextra -Werror -Wshadow)
strict=(-Wstrict-prototypes -Wmissing-prototypes)
# shellcheck disable=SC2207  # flags are words
flags=($(pkg-config --cflags jansson yaml-0.1 sqlite3 libcrypto libavformat libavcodec libavutil \
    libswscale check 2>/dev/null) -I. -D_GNU_SOURCE)

# each N FILE... -- COMMAND...: runs COMMAND with at most N files at a time, one process per core.
each() {
    local n=$1 files=()
    shift
    while [ "$1" != -- ]; do
        files+=("$1")
        shift
    done
    shift
    printf '%s\0' "${files[@]}" | xargs -0 -n "$n" -P "$cores" "$@"
}

alone() { # language standard compiler headers...
    local lang=$1 std=$2 cc=$3 h work rc=0 wrappers=()
    shift 3
    work=$(mktemp -d)
    for h in "$@"; do
        # Includes each header twice: a header without an include guard fails here.
        printf '#include "%s"\n#include "%s"\n' "$h" "$h" >"$work/${h//\//__}.in"
        wrappers+=("$work/${h//\//__}.in")
    done
    each 8 "${wrappers[@]}" -- "$cc" -x "$lang" -std="$std" -march=native -Wall -Wextra -Werror "${flags[@]}" -fopenmp \
        -fsyntax-only || rc=1
    rm -rf "$work"
    return "$rc"
}

alone_emulated() { # headers...
    local keep=("${flags[@]}")
    local flags=("${keep[@]}" -DKVR_EMULATED -Wno-unknown-pragmas -Wno-unused-function)
    alone c++ c++17 g++ "$@"
}

# Prints the files that are not formatted; `make format` formats them.
formatted() {
    each 16 "$@" -- clang-format --dry-run -Werror 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u >"$log.files"
    cat "$log.files"
    test ! -s "$log.files"
}

clang_builds() {
    each 8 "${sources[@]}" -- clang -std=c17 "${warn[@]}" "${strict[@]}" "${flags[@]}" -march=native -fopenmp -fsyntax-only
}

# Compiles the emulated build of the CUDA sources with clang.
clang_builds_cuda() {
    local f plain=() throwing=() rc=0
    for f in "${cuda[@]}"; do
        case $f in
        harness/device/*_cuda.cu) ;; # only for nvcc
        */onednn_guard.cc | */spiece.cc) throwing+=("$f") ;; # they catch C++ exceptions
        *) plain+=("$f") ;;
        esac
    done
    local options=(-x c++ -std=c++17 -Wall -Wextra -Werror -Wno-unknown-pragmas "${flags[@]}" -DKVR_EMULATED -fno-rtti -fsyntax-only)
    each 2 "${plain[@]}" -- clang++ "${options[@]}" -fno-exceptions || rc=1
    each 2 "${throwing[@]}" -- clang++ "${options[@]}" -fexceptions || rc=1
    return "$rc"
}

# Runs clang's static analyser, which follows the paths through each source file.
analyzed() {
    local options=(--analyze --analyzer-output text -Xclang -analyzer-werror -std=c17 "${flags[@]}" -march=native -fopenmp)
    each 4 "$@" -- clang "${options[@]}" -include tools/lint/analyzer.h
}

# nvcc must compile every kernel without register spills. The exceptions are five variants of attend_mma_coded for
# head dimension 128 with the Taylor correction and two quantization grids: FORM 143 (scales of K and V over tokens)
# and 172 to 175 (K or V may be unquantized).
no_spills() {
    make -s V=1 cuda || return 1
    find "${BUILD:-build}" -name '*.cuda.o.log' -exec cat {} + |
        awk '/Compiling entry function/ { name = $0 }
             /bytes spill/ && !/ 0 bytes spill stores, 0 bytes/ && name !~ /attend_mma_codedILi(143|17[2-5])E/ { print name; print; bad = 1 }
             /spill/ { n++ }
             END { if (!n) print "no kernel was compiled"; exit bad || !n }'
}

# Compares the numbers of registers that warpgroups request (setmaxnreg, in PTX) with the number that ptxas' log
# states for the kernel. Larger requests hang on a GPU.
registers_fit() {
    local f rc=0 work
    work=$(mktemp -d)
    while read -r f; do
        nvcc -I. -std=c++17 -O3 -fmad=false -arch=sm_90a -ptx -o "$work/k.ptx" "$f" &&
            python3 tools/sass/setmaxnreg.py --log "${BUILD:-build}/${f%.cu}.cuda.o.log" "$work/k.ptx" || rc=1
    done < <(git grep -l 'kvr_setmaxnreg_inc<' -- 'harness/*.cu' 'methods/*.cu')
    rm -rf "$work"
    return "$rc"
}

later() { # name: succeeds with --all, otherwise prints that the step was left out
    [ -n "$all" ] && return 0
    echo "left  $1: make lint-all"
    return 1
}

step "includes follow docs/architecture.md" bash tools/lint/check-includes.sh
step "tools/README.md lists every script" bash tools/lint/check-index.sh
step "no code branches on the device" bash tools/lint/check-devices.sh
step "functions and files are short" bash tools/lint/check-sizes.sh
step "language rules of CONTRIBUTING.md" bash tools/lint/plain.sh
if have shellcheck 'shell scripts'; then
    step "shell scripts" each 8 "${scripts[@]}" -- shellcheck -x -S warning -e SC2154
fi
if have clang-format formatting; then
    every=("${sources[@]}" "${headers[@]}" "${cuda[@]}" "${cuda_headers[@]}")
    step "formatting of ${#every[@]} files" formatted "${every[@]}"
fi
if have gcc 'headers alone'; then
    step "headers compile alone, C17" alone c c17 gcc "${headers[@]}"
    seam=()
    for h in "${headers[@]}"; do
        case $h in
        methods/*/* | methods/part.h) ;; # kernels share these headers, and only the CUDA build compiles them as C++
        harness/core/*.h | harness/cache/cache.h | methods/*.h) seam+=("$h") ;;
        esac
    done
    step "headers of core, cache and methods compile alone, C++17" alone c++ c++17 g++ "${seam[@]}"
fi
if have g++ 'CUDA headers alone'; then
    step "CUDA headers compile alone, emulated" alone_emulated "${cuda_headers[@]}"
fi
if have clang 'the second compiler'; then
    step "clang compiles every source" clang_builds
    step "clang compiles every CUDA source, emulated" clang_builds_cuda
fi
# Static analysis omits the tests: Check's macros hide from it that a failed assertion ends the function.
mapfile -t product < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')
if have cppcheck cppcheck; then
    # cppcheck does not read system headers, which would take minutes, so these definitions replace jansson's
    # loop macros.
    #
    # invalidPointerCast is suppressed: scratch memory has floats, integers or BF16 at different times.
    # cppcheck would report each cast between them, although no value is read with another type.
    step "cppcheck" cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -I. -D_GNU_SOURCE \
        '-Djson_object_foreach(o,k,v)=while((k=next_key(o))&&(v=next_value(o)))' \
        '-Djson_array_foreach(a,i,v)=while((v=element(a,i=next_index(a))))' \
        --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
        --suppress='*:/usr/*' --suppress=invalidPointerCast -j "$cores" "${product[@]}"
fi
step "libkvreel.so loads late in a process" sh -c 'make -s -j2 lib && bash tools/lint/check-library.sh "${BUILD:-build}/libkvreel.so"'
if have clang "clang's analyser" && later "clang's analyser"; then
    step "clang's analyser finds nothing in ${#product[@]} sources" analyzed "${product[@]}"
fi
if have clang 'loops' && later "clang's optimiser, for every instruction set"; then
    step "clang's optimiser is silent about loops, for every instruction set" make -s -j"$cores" CC=clang loops
fi
[ -z "$(command -v nvcc)" ] && [ -x /usr/local/cuda/bin/nvcc ] && PATH=$PATH:/usr/local/cuda/bin # as in the Makefile
if have nvcc 'machine code of the CUDA kernels' && have python3 'machine code of the CUDA kernels'; then
    if NVDISASM=$(bash tools/sass/nvdisasm.sh --install 2>&1); then
        export NVDISASM
        step "machine code of attention within its limits" bash tools/sass/sass.sh
        step "machine code of codecs within its limits" bash tools/sass/sass-streams.sh
    else
        echo "skip  machine code of the CUDA kernels: $NVDISASM"
    fi
    if later "every kernel by nvcc"; then
        step "nvcc compiles every kernel without register spills" no_spills
        step "registers of warpgroups fit what the launch allocates" registers_fit
        step "the programs of a device package link" make -s -j"$cores" packed
    fi
fi
echo "lint: $SECONDS s"
exit $bad
