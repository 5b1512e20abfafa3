#!/usr/bin/env bash
# lint.sh - formatting, static analysis, headers that stand alone, and a second compiler.
#
# A tool that is not installed is named and left out; whatever is found fails the goal.
set -uo pipefail

mapfile -t sources < <(git ls-files '*.c')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t cuda < <(git ls-files '*.cu' '*.cc')
mapfile -t cuda_headers < <(git ls-files '*.cuh')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
bad=0

step() { # name command...
    local name=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        echo "ok    $name"
    else
        echo "FAIL  $name"
        sed 's/^/      | /' "$log" | head -n 80
        bad=1
    fi
    rm -f "$log"
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

alone() { # language standard compiler headers...
    local lang=$1 std=$2 cc=$3 h rc=0
    shift 3
    for h in "$@"; do
        # The include comes twice: a header without a guard fails here.
        printf '#include "%s"\n#include "%s"\n' "$h" "$h" |
            "$cc" -x "$lang" -std="$std" -march=native -Wall -Wextra -Werror "${flags[@]}" -fopenmp -fsyntax-only - || rc=1
    done
    return "$rc"
}

alone_emulated() { # headers...
    local keep=("${flags[@]}")
    local flags=("${keep[@]}" -DKVR_EMULATED -Wno-unknown-pragmas -Wno-unused-function)
    alone c++ c++17 g++ "$@"
}

# Names the files; `make format` mends them.
formatted() {
    local f rc=0
    for f in "$@"; do
        if ! clang-format --dry-run -Werror "$f" 2>/dev/null; then
            echo "$f"
            rc=1
        fi
    done
    return "$rc"
}

clang_builds() {
    local f rc=0
    for f in "${sources[@]}"; do
        clang -std=c17 "${warn[@]}" "${strict[@]}" "${flags[@]}" -march=native -fopenmp \
            -fsyntax-only "$f" || rc=1
    done
    return "$rc"
}

# The emulated build of the CUDA sources, by the second compiler.
clang_builds_cuda() {
    local f rc=0 exceptions
    for f in "${cuda[@]}"; do
        [[ $f == harness/device/*_cuda.cu ]] && continue # nvcc's alone
        exceptions=-fno-exceptions
        case $f in */onednn_guard.cc | */spiece.cc) exceptions=-fexceptions ;; esac # where those of libraries end
        clang++ -x c++ -std=c++17 -Wall -Wextra -Werror -Wno-unknown-pragmas "${flags[@]}" \
            -DKVR_EMULATED "$exceptions" -fno-rtti -fsyntax-only "$f" || rc=1
    done
    return "$rc"
}

# nvcc takes every kernel, and none spills registers but the rare forms of attend_mma_coded: two grids
# (139, 143), one of keys and values not coded (172 to 175).
no_spills() {
    make -s V=1 cuda || return 1
    find "${BUILD:-build}" -name '*.cuda.o.log' -exec cat {} + |
        awk '/Compiling entry function/ { name = $0 }
             /bytes spill/ && !/ 0 bytes spill stores, 0 bytes/ && name !~ /attend_mma_codedILi(143|17[2-5])E/ { print name; print; bad = 1 }
             /spill/ { n++ }
             END { if (!n) print "no kernel was compiled"; exit bad || !n }'
}

# What warp groups ask for (setmaxnreg, from PTX) beside what ptxas gave their kernel: more hangs on a device.
registers_fit() {
    local f rc=0 work
    work=$(mktemp -d)
    while read -r f; do
        nvcc -I. -std=c++17 -O3 -fmad=false -arch=sm_90a -ptx -o "$work/k.ptx" "$f" &&
            python3 tools/setmaxnreg.py --log "${BUILD:-build}/${f%.cu}.cuda.o.log" "$work/k.ptx" || rc=1
    done < <(git grep -l 'kvr_setmaxnreg_inc<' -- 'harness/*.cu' 'methods/*.cu')
    rm -rf "$work"
    return "$rc"
}

step "includes go one way" bash tools/check-includes.sh
step "nobody asks which device it is" bash tools/check-devices.sh
step "text in the field's words" bash tools/plain.sh
step "the library opens late in a process" sh -c 'make -s -j2 lib && bash tools/check-library.sh "${BUILD:-build}/libkvreel.so"'
if have clang-format formatting; then
    all=("${sources[@]}" "${headers[@]}" "${cuda[@]}" "${cuda_headers[@]}")
    step "formatting of ${#all[@]} files" formatted "${all[@]}"
fi
if have gcc 'headers alone'; then
    step "headers alone, C17" alone c c17 gcc "${headers[@]}"
    seam=()
    for h in "${headers[@]}"; do
        case $h in
        methods/*/* | methods/part.h) ;; # shared with kernels, where C++ is a device's
        harness/core/*.h | harness/cache/cache.h | methods/*.h) seam+=("$h") ;;
        esac
    done
    step "headers of the seam alone, C++17" alone c++ c++17 g++ "${seam[@]}"
fi
if have g++ 'CUDA headers alone'; then
    step "CUDA headers alone, emulated" alone_emulated "${cuda_headers[@]}"
fi
if have clang 'the second compiler'; then
    step "clang takes every source" clang_builds
    step "clang takes every CUDA source, emulated" clang_builds_cuda
    step "clang's optimiser is silent about loops, for every instruction set" make -s -j2 CC=clang loops
fi
[ -z "$(command -v nvcc)" ] && [ -x /usr/local/cuda/bin/nvcc ] && PATH=$PATH:/usr/local/cuda/bin # where the Makefile looks, too
if have nvcc 'registers of the CUDA kernels'; then
    step "nvcc takes every kernel, and none spills" no_spills
    have python3 'registers of warp groups' &&
        step "registers of warp groups fit what the launch allocates" registers_fit
    step "what a session with a GPU will build" bash tools/device-check.sh --build 90 "${BUILD:-build}/device-90"
    bash tools/sass.sh >/dev/null 2>"${BUILD:-build}/sass.log"
    case $? in
    77) echo "skip  $(cat "${BUILD:-build}/sass.log")" ;;
    *)
        step "machine code of attention within its limits" bash tools/sass.sh
        step "machine code of codecs within its limits" bash tools/sass-streams.sh
        ;;
    esac
fi
if have cppcheck cppcheck; then
    # Without the tests: Check's macros hide from it which assertions end a function.
    mapfile -t product < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')
    # System headers are not read (they take minutes), so loops that hide in their macros are
    # spelled out here.
    # Scratch memory holds floats, integers and BF16 by turns: of each cast between them
    # invalidPointerCast says that their bits differ, which nobody reads across.
    step "cppcheck" cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -I. -D_GNU_SOURCE \
        '-Djson_object_foreach(o,k,v)=while((k=next_key(o))&&(v=next_value(o)))' \
        '-Djson_array_foreach(a,i,v)=while((v=element(a,i=next_index(a))))' \
        --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
        --suppress='*:/usr/*' --suppress=invalidPointerCast -j 2 "${product[@]}"
fi
if have shellcheck 'shell scripts'; then
    step "shell scripts" shellcheck -x -S warning -e SC2154 "${scripts[@]}"
fi
exit $bad
