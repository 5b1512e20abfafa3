#!/usr/bin/env bash
# device-check.sh - build and run the CUDA kernels' tests and benchmarks on a machine with a GPU that
# has nvcc and a C compiler and nothing else: no Check, no libraries of kvreel's.
#
#     tools/device-check.sh [OUT]              OUT (default build/device) gets logs and device.json
#     tools/device-check.sh --emulated [OUT]   the same build on a CPU: tries out the script itself
#
# The engine's tests read JSON. A folder .device with jansson.h, jansson_config.h and libjansson.a, from
# a machine that has them, lets them be built, too; its layers on the CPU are plain loops here.
#
# Runs the tests; the benchmarks, each beside a reference of the same run; PyTorch's attention where
# there is PyTorch; then the kernels' tests under compute-sanitizer (memcheck, racecheck) where it is
# installed. All of it ends within LIMIT_S seconds (default 520): what did not get its turn, or did
# not finish, is null in device.json, which also has GPU, driver, clocks and commit.
# Exit status 0 when all that was run passed, 1 otherwise, 2 without a compiler or a device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

limit=${LIMIT_S:-520}
emulated=
if [ "${1:-}" = --emulated ]; then
    emulated=1
    shift
fi
out=${1:-build/device}
carried=.device
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
cc=${CC:-gcc}
rm -rf "$out/obj" "$out/tests" "$out/examples"
mkdir -p "$out/obj" "$out/tests/cuda" "$out/examples/plugin" || exit 2

for tool in "$cc" ${emulated:+g++}; do
    command -v "$tool" >/dev/null || {
        echo "device-check: no $tool" >&2
        exit 2
    }
done
if [ -z "$emulated" ]; then
    [ -n "$nvcc" ] || {
        echo "device-check: no nvcc" >&2
        exit 2
    }
    gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,clocks.sm,clocks.max.sm,clocks.mem,memory.total,power.limit \
        --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    [ -n "$gpu" ] || {
        echo "device-check: nvidia-smi finds no GPU" >&2
        exit 2
    }
    arch=$(cut -d, -f2 <<<"$gpu" | tr -d ' .')
fi

# cuBLASLt and its header often lie where only Python looks for them.
nvidia() { # pattern below site-packages/nvidia: the folder of the first file of that name
    python3 -c 'import glob, site, sys
for d in site.getsitepackages() + sys.path:
    for f in glob.glob(d + "/nvidia/" + sys.argv[1]):
        sys.exit(print(f.rsplit("/", 1)[0]))' "$1" 2>/dev/null
}
mkdir -p "$out/include"
if [ -z "$emulated" ]; then
    blas=$(nvidia '*/include/cublasLt.h')
    # Its headers alone: the others there may be of another version than nvcc.
    [ -e "$(dirname "$nvcc")/../include/cublasLt.h" ] || [ -z "$blas" ] || ln -sf "$blas"/cublas*.h "$out/include/"
    blas=$(nvidia '*/lib/libcublasLt.so.*')
    [ -z "$blas" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$blas
fi

# ---- build --------------------------------------------------------------------------------------

# What the kernels are held to. The linker takes what is used, and that needs the C library alone.
flags=(-I. -D_GNU_SOURCE -O2 -march=native -ffp-contract=off -fopenmp -ffunction-sections -Wno-psabi)
sources=(harness/core/{status,dtype,rng,opts,clock,tensor,path}.c harness/device/*.c methods/*.c methods/*/*.c methods/*/*/*.c
    harness/cache/*.c harness/engine/{ops*,gemm,gemm_cuda,draw}.c tools/device/{stubs,gemm_plain}.c
    harness/bench/{bench,turns_cuda,bench_codec,bench_codec_cuda,bench_attention_cuda,bench_gemm_cuda}.c)
# Each is a program of its own; test_kernels.c has the cases beside it.
programs=(tests/cuda/test_{kernels,codec_cuda,policy_cuda,names}.c tests/cache/test_{rows,device}.c)
engine=()
if [ -e "$carried/jansson.h" ] && [ -e "$carried/libjansson.a" ]; then
    programs+=(tests/engine/test_{device,wan_tiny}.c)
    for f in harness/core/{json,safetensors,safetensors_write,outfile,hostmem}.c harness/engine/*.c harness/workload/*.c \
        tests/tiny_model.c; do
        [[ " ${sources[*]} harness/engine/gemm_cpu.c " == *" $f "* ]] || engine+=("$f")
    done
fi
flat() { printf '%s' "${1//\//_}"; }
name_of() { printf '%s_%s' "$(basename "$(dirname "$1")")" "$(basename "$1" .c)"; }
build() { # object command...
    local o=$1
    shift
    printf '%s\0' "$* -o $o"
}
{
    # The slowest first: a kernel's object takes as long as everything else.
    for f in harness/*/*.cu harness/*/*/*.cu methods/*/*.cu methods/*/*/*.cu; do
        if [ -z "$emulated" ]; then
            build "$out/obj/cuda_$(flat "$f").o" "$nvcc" -I. -std=c++17 -O3 -fmad=false -lineinfo \
                "-arch=sm_$arch" "-I$out/include" -c "$f"
        elif [[ $f != harness/device/*_cuda.cu ]]; then
            build "$out/obj/cuda_$(flat "$f").o" g++ -std=c++17 "${flags[@]}" -DKVR_EMULATED \
                -fno-exceptions -fno-rtti -x c++ -c "$f"
        fi
    done
    for f in ${emulated:+harness/device/*.cc}; do
        build "$out/obj/cuda_$(flat "$f").o" g++ -std=c++17 "${flags[@]}" -DKVR_EMULATED \
            -fno-exceptions -fno-rtti -c "$f"
    done
    for f in "${sources[@]}"; do
        build "$out/obj/lib_$(flat "$f").o" "$cc" -std=c17 "${flags[@]}" -c "$f"
    done
    for f in "${engine[@]}"; do
        build "$out/obj/engine_$(flat "$f").o" "$cc" -std=c17 -Itools/device "-I$carried" "${flags[@]}" -c "$f"
    done
    for f in tests/cuda/both.c tests/cuda/cases_*.c; do
        build "$out/obj/cases_$(flat "$f").o" "$cc" -std=c17 -Itools/device "${flags[@]}" -c "$f"
    done
    for f in "${programs[@]}"; do
        build "$out/obj/main_$(flat "$f").o" "$cc" -std=c17 -DSHIM_MAIN -Itools/device \
            "-I$carried" "${flags[@]}" -c "$f"
    done
    build "$out/obj/main_bench.o" "$cc" -std=c17 "${flags[@]}" -c tools/device/bench_main.c
    build "$out/examples/plugin/center.so" "$cc" -std=c17 "${flags[@]}" -fPIC -shared examples/plugin/center.c
} >"$out/commands"
rm -f "$out"/lib*.a
xargs -0 -P "$(nproc)" -I{} bash -c '{}' <"$out/commands" >"$out/build.log" 2>&1 || {
    echo "device-check: the build failed" >&2
    tail -n 40 "$out/build.log" >&2
    exit 1
}
ar rcs "$out/libkvreel.a" "$out"/obj/lib_*.o
libs=(-lm -ldl -lpthread)
if [ ${#engine[@]} -gt 0 ]; then
    ar rcs "$out/libengine.a" "$out"/obj/engine_*.o
    libs=("$out/libengine.a" "$carried/libjansson.a" "${libs[@]}")
fi
[ -n "$emulated" ] || libs+=("-L$(dirname "$nvcc")/../lib64" -lcudart_static -lstdc++ -lrt)
link() { # program objects...
    local program=$1
    shift
    # -rdynamic, and all of the library: a plug-in takes what it needs from the program.
    "$cc" -fopenmp -rdynamic -Wl,--gc-sections -o "$program" "$@" "$out"/obj/cuda_*.o \
        -Wl,--whole-archive "$out/libkvreel.a" -Wl,--no-whole-archive "${libs[@]}" >>"$out/build.log" 2>&1 || {
        echo "device-check: the link of $program failed" >&2
        tail -n 40 "$out/build.log" >&2
        exit 1
    }
}
for f in "${programs[@]}"; do
    more=()
    [ "$(basename "$f")" != test_kernels.c ] || more=("$out"/obj/cases_*.o)
    link "$out/tests/cuda/$(name_of "$f")" "$out/obj/main_$(flat "$f").o" "${more[@]}"
done
link "$out/bench" "$out/obj/main_bench.o"
echo "device-check: built after $SECONDS s"

# ---- run ----------------------------------------------------------------------------------------

verdict=0
# within SECONDS COMMAND...: no longer than that, and than is left of it all; 124: not finished.
within() {
    local most=$1 left=$((limit - SECONDS))
    shift
    [ "$left" -gt 5 ] || return 124
    timeout "$((most < left ? most : left))" "$@"
}

checks=0
failures=0
per_program=
for f in "${programs[@]}"; do
    name=$(name_of "$f")
    log=$out/$name.log
    start=$SECONDS
    within "$([ -n "$emulated" ] && echo 600 || echo 180)" "$out/tests/cuda/$name" >"$log" 2>&1
    rc=$?
    [ "$rc" -eq 0 ] || verdict=1
    read -r n bad < <(sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\).*/\1 \2/p' "$log") || n="" bad=""
    checks=$((checks + ${n:-0}))
    failures=$((failures + ${bad:-1}))
    printf '%-22s exit %3d, %s checks, %s failures, %d s\n' "$name" "$rc" "${n:-?}" "${bad:-?}" $((SECONDS - start))
    [ "$rc" -eq 0 ] || tail -n 15 "$log"
    per_program+="${per_program:+, }\"$name\": {\"exit\": $rc, \"checks\": ${n:-null}, \"failures\": ${bad:-null}, \"seconds\": $((SECONDS - start))}"
done
grep -h '^CUDA: ' "$out/cuda_test_kernels.log"

# A part that did not finish leaves nothing: half a file is no JSON.
rows() { # file seconds command...
    local file=$1 rc
    shift
    within "$@" >"$file" 2>"$file.err"
    rc=$?
    [ "$rc" -eq 0 ] || {
        echo "device-check: $(basename "$file"): exit $rc: $(tail -n 3 "$file.err")" >&2
        [ "$rc" -eq 124 ] || verdict=1
    }
    tail -n 1 "$file" 2>/dev/null | grep -q '\]' || echo null >"$file"
}
rows "$out/bench.json" 200 "$out/bench" "$([ -n "$emulated" ] && echo 3 || echo 15)" codec attention gemm
if [ -z "$emulated" ] && within 60 python3 -c 'import torch' 2>/dev/null; then
    rows "$out/sdpa.json" 60 python3 tools/device/sdpa.py 15
else
    echo null >"$out/sdpa.json"
fi

memcheck=null
racecheck=null
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$emulated" ] && [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        more=()
        [ "$tool" != memcheck ] || more=(--report-api-errors no) # a test asks for too much memory
        within 100 "$sanitizer" --tool "$tool" "${more[@]}" --error-exitcode 9 "$out/tests/cuda/cuda_test_kernels" \
            >"$out/$tool.log" 2>&1
        case $? in
        0) printf -v "$tool" true ;;
        124) echo "device-check: $tool did not finish" >&2 ;;
        *)
            printf -v "$tool" false
            verdict=1
            tail -n 20 "$out/$tool.log"
            ;;
        esac
    done
fi

# ---- report -------------------------------------------------------------------------------------

text() { # a JSON string, or null
    [ -n "$1" ] && printf '"%s"' "${1//\"/}" || printf null
}
number() {
    [[ ${1// /} =~ ^[0-9.]+$ ]] && printf '%s' "${1// /}" || printf null
}
IFS=, read -r name cap driver sm sm_max mem total power <<<"${gpu:-}"
read -r kernels of < <(sed -n 's/^CUDA: \([0-9]*\) of \([0-9]*\) kernels.*/\1 \2/p' "$out/cuda_test_kernels.log") || true
clock=$([ -n "$emulated" ] || nvidia-smi --query-gpu=clocks.sm --format=csv,noheader,nounits | head -n 1)
cat >"$out/device.json" <<END
{
  "backend": "$([ -n "$emulated" ] && echo emulated || echo device)",
  "commit": $(text "$(git rev-parse HEAD 2>/dev/null)"),
  "changes": $(git status --porcelain 2>/dev/null | grep -q . && echo true || echo false),
  "gpu": $(text "${name:-}"),
  "compute_capability": $(text "${cap# }"),
  "driver": $(text "${driver# }"),
  "nvcc": $(text "$([ -n "$nvcc" ] && "$nvcc" --version | sed -n 's/.*release .*, V//p')"),
  "sm_mhz": $(number "${sm:-}"),
  "sm_mhz_after": $(number "${clock:-}"),
  "sm_mhz_max": $(number "${sm_max:-}"),
  "memory_mhz": $(number "${mem:-}"),
  "memory_mib": $(number "${total:-}"),
  "power_limit_w": $(number "${power:-}"),
  "checks": $checks,
  "failures": $failures,
  "programs": {$per_program},
  "kernels_executed": $(number "${kernels:-}"),
  "kernels": $(number "${of:-}"),
  "memcheck_clean": $memcheck,
  "racecheck_clean": $racecheck,
  "seconds": $SECONDS,
  "bench": $(cat "$out/bench.json"),
  "pytorch": $(cat "$out/sdpa.json")
}
END
cat "$out/device.json"
exit $verdict
