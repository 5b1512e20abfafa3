#!/usr/bin/env bash
# device-check.sh - build and run the CUDA kernels' tests on a machine with a GPU that has nvcc and
# a C compiler and nothing else: no Check, no libraries of kvreel's.
#
#     tools/device-check.sh [OUT]              OUT (default build/device) gets logs and device.json
#     tools/device-check.sh --emulated [OUT]   the same build on a CPU: tries out the script itself
#
# Runs the tests, then a part of them under compute-sanitizer (memcheck, racecheck) where it is
# installed. device.json: GPU, driver, clocks, commit, and what passed; what was not run is null.
# Exit status 0 when all that was run passed, 1 otherwise, 2 without a compiler or a device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

emulated=
if [ "${1:-}" = --emulated ]; then
    emulated=1
    shift
fi
out=${1:-build/device}
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
cc=${CC:-gcc}
mkdir -p "$out/obj" || exit 2

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

# What the kernels are held to. The linker takes what is used, and that needs the C library alone.
flags=(-I. -D_GNU_SOURCE -O2 -march=native -ffp-contract=off -fopenmp -ffunction-sections)
sources=(harness/core/{status,dtype,mem,rng,opts,clock,phase}.c methods/*.c methods/*/*.c
    harness/cache/{attend_cpu,attend_device,rows,segment}.c harness/cuda/*.c
    harness/engine/ops_{cpu,exact}.c)
tests=(tests/cuda/both.c tests/cuda/cases_*.c)
jobs=()
build() { # object command...
    local o=$1
    shift
    jobs+=("$o")
    printf '%s\0' "$* -o $o"
}
{
    for f in "${sources[@]}"; do
        build "$out/obj/lib_${f//\//_}.o" "$cc" -std=c17 "${flags[@]}" -c "$f"
    done
    for f in "${tests[@]}"; do
        build "$out/obj/test_${f//\//_}.o" "$cc" -std=c17 -Itools/device "${flags[@]}" -c "$f"
    done
    build "$out/obj/test_main.o" "$cc" -std=c17 -DSHIM_MAIN -Itools/device "${flags[@]}" -c \
        tests/cuda/test_kernels.c
    for f in harness/*/*.cu methods/*/*.cu; do
        if [ -z "$emulated" ]; then
            build "$out/obj/cuda_${f//\//_}.o" "$nvcc" -I. -std=c++17 -O3 -fmad=false -lineinfo \
                "-arch=sm_$arch" -c "$f"
        elif [ "$f" != harness/cuda/stream_cuda.cu ]; then
            build "$out/obj/cuda_${f//\//_}.o" g++ -std=c++17 "${flags[@]}" -DKVR_EMULATED \
                -fno-exceptions -fno-rtti -x c++ -c "$f"
        fi
    done
    for f in ${emulated:+harness/cuda/*.cc}; do
        build "$out/obj/cuda_${f//\//_}.o" g++ -std=c++17 "${flags[@]}" -DKVR_EMULATED \
            -fno-exceptions -fno-rtti -c "$f"
    done
} >"$out/commands"
rm -f "$out"/obj/*.o "$out/libkvreel.a"
xargs -0 -P "$(nproc)" -I{} bash -c '{}' <"$out/commands" >"$out/build.log" 2>&1 || {
    echo "device-check: the build failed" >&2
    tail -n 40 "$out/build.log" >&2
    exit 1
}
ar rcs "$out/libkvreel.a" "$out"/obj/lib_*.o
libs=(-lm -ldl -lpthread)
[ -n "$emulated" ] || libs+=("-L$(dirname "$nvcc")/../lib64" -lcudart_static -lstdc++ -lrt)
"$cc" -fopenmp -Wl,--gc-sections -o "$out/test_kernels" "$out"/obj/{test,cuda}_*.o "$out/libkvreel.a" "${libs[@]}" \
    >>"$out/build.log" 2>&1 || {
    echo "device-check: the link failed" >&2
    tail -n 40 "$out/build.log" >&2
    exit 1
}

verdict=0
"$out/test_kernels" >"$out/test.log" 2>&1 || verdict=1
tail -n 40 "$out/test.log"

memcheck=null
racecheck=null
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$emulated" ] && [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        if timeout 240 "$sanitizer" --tool "$tool" --error-exitcode 9 "$out/test_kernels" \
            >"$out/$tool.log" 2>&1; then
            printf -v "$tool" true
        else
            printf -v "$tool" false
            verdict=1
            tail -n 20 "$out/$tool.log"
        fi
    done
fi

text() { # a JSON string, or null
    [ -n "$1" ] && printf '"%s"' "${1//\"/}" || printf null
}
number() {
    [[ ${1// /} =~ ^[0-9.]+$ ]] && printf '%s' "${1// /}" || printf null
}
IFS=, read -r name cap driver sm sm_max mem total power <<<"${gpu:-}"
read -r checks failures < <(sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\).*/\1 \2/p' "$out/test.log") || true
read -r kernels of < <(sed -n 's/^CUDA: \([0-9]*\) of \([0-9]*\) kernels.*/\1 \2/p' "$out/test.log") || true
cat >"$out/device.json" <<END
{
  "backend": "$([ -n "$emulated" ] && echo emulated || echo device)",
  "commit": $(text "$(git rev-parse HEAD 2>/dev/null)"),
  "gpu": $(text "${name:-}"),
  "compute_capability": $(text "${cap# }"),
  "driver": $(text "${driver# }"),
  "nvcc": $(text "$([ -n "$nvcc" ] && "$nvcc" --version | sed -n 's/.*release .*, V//p')"),
  "sm_mhz": $(number "${sm:-}"),
  "sm_mhz_max": $(number "${sm_max:-}"),
  "memory_mhz": $(number "${mem:-}"),
  "memory_mib": $(number "${total:-}"),
  "power_limit_w": $(number "${power:-}"),
  "checks": $(number "${checks:-}"),
  "failures": $(number "${failures:-}"),
  "kernels_executed": $(number "${kernels:-}"),
  "kernels": $(number "${of:-}"),
  "memcheck_clean": $memcheck,
  "racecheck_clean": $racecheck
}
END
cat "$out/device.json"
exit $verdict
