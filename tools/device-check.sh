#!/usr/bin/env bash
# device-check.sh - the minutes a GPU is there: build and run the CUDA kernels' tests and benchmarks on a
# machine that has nvcc and a C compiler: no Check, and of kvreel's libraries jansson alone.
#
#     tools/device-check.sh [OUT]              OUT (default build/device) gets logs and device.json
#     tools/device-check.sh --emulated [OUT]   the same build on a CPU: tries out the script itself
#     tools/device-check.sh --build CC [OUT]   the build alone, for compute capability CC (90), without a GPU
#     tools/device-check.sh --commands CC      the commands of that build that make objects, a line each
#     tools/device-check.sh --dry              what would be run, in which order, for how long at most
#     tools/device-check.sh --report OUT       what was measured beside what is modelled, once more
#     tools/device-check.sh --pack FILE [--emulated]   an archive that another machine runs (tools/device/pack.sh)
#     tools/device-check.sh --run FILE OUT     unpacks it and runs it (tools/device/run.sh); needs a driver
#
# Models and scripts are JSON. Where jansson is not installed, a folder .device with jansson.h,
# jansson_config.h and libjansson.a, from a machine that has them, is taken. Layers on the CPU are plain
# loops here.
#
# What is worth most comes first: the kernels' tests; occupancy and clocks; attention beside cuDNN, in
# one process, and beside PyTorch's where there is PyTorch; what the profiler says of its inner loop;
# codecs; one forward; the sanitizers; the other tests. All of it ends within LIMIT_S seconds (default
# 520). Rows are written as they come: what was measured before a limit is there, and a step that did
# not get its turn, or did not finish, is null in device.json, which also has GPU, driver, clocks and
# commit. Last comes a table of what was measured beside what the machine code's model says
# (tools/device/model.tsv).
# Exit status 0 when all that was run passed, 1 otherwise, 2 without a compiler or a device.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

# name, seconds at most, what
steps='build 110 objects by nvcc and the C compiler, linked by nvcc
kernels 90 the tests of every kernel
occupancy 5 blocks of attention that a multiprocessor takes at once, and idle clocks
attention 80 dense, coded and staged, beside cuDNN in this process
pytorch 40 cuDNN and FlashAttention by PyTorch
profile 30 issue slots, stalls, tensor pipe and bank conflicts of attention, by ncu
codecs 20 coding beside copies
forward 40 one forward over 5 chunks of keys and values, by phase
memcheck 60 the tests of every kernel, under compute-sanitizer
racecheck 30 those of attention, likewise
engine 25 the tests of codecs, policies, cache and engine
layers 10 linear layers beside cuBLASLt'
seconds_of() { awk -v s="$1" '$1 == s { print $2 }' <<<"$steps"; }

# report OUT: rows of OUT/*.jsonl beside the model's; and what of the model's was not measured.
report() {
    cat "$1"/{occupancy,attention,pytorch,codecs,forward,layers}.jsonl 2>/dev/null |
        awk -F'\t' -v model=tools/device/model.tsv '
        function value(key,    at, text) { # a number or a word of this line; "" for null
            at = index($0, "\"" key "\": ")
            if (!at) return ""
            text = substr($0, at + length(key) + 4)
            if (text ~ /^"/) { sub(/^"/, "", text); sub(/".*/, "", text); return text }
            sub(/[,}].*/, "", text)
            return text == "null" ? "" : text
        }
        function figure(x) { return x == "" ? "-" : sprintf("%.4g", x) }
        BEGIN {
            while ((getline line < model) > 0)
                if (line !~ /^#/ && split(line, f, "\t") >= 4) { name[++n] = f[1]; said[f[1]] = f[2]; unit[f[1]] = f[3]; key[f[1]] = f[4] }
            printf "%-46s %10s %10s %7s  %-8s %7s %6s %5s\n", "", "measured", "modelled", "of it", "unit", "of ref.", "MHz", "W"
        }
        {
            row = value("name")
            for (i = 1; i <= n; i++) {
                split(name[i], part, ":")
                if (part[1] != row || (name[i] in got)) continue
                m = value(key[name[i]])
                if (m == "") continue
                got[name[i]] = 1
                printf "%-46s %10s %10s %7s  %-8s %7s %6s %5s\n", name[i], figure(m), figure(said[name[i]]),
                    figure(m / said[name[i]]), unit[name[i]], figure(value("ratio")), figure(value("mhz")), figure(value("watts"))
            }
        }
        END {
            for (i = 1; i <= n; i++)
                if (!(name[i] in got))
                    printf "%-46s %10s %10s %7s  %-8s\n", name[i], "-", figure(said[name[i]]), "-", unit[name[i]]
        }'
}

limit=${LIMIT_S:-520}
emulated=
mode=
arch=
case ${1:-} in
--dry)
    echo "$steps"
    exit 0
    ;;
--report)
    [ -d "${2:-}" ] || {
        echo "device-check: --report needs a folder" >&2
        exit 2
    }
    report "$2"
    exit 0
    ;;
--pack)
    shift
    exec bash tools/device/pack.sh "$@"
    ;;
--run)
    if [ ! -f "${2:-}" ] || [ -z "${3:-}" ]; then
        echo "device-check: --run needs an archive of --pack and a folder" >&2
        exit 2
    fi
    checkout=$PWD
    mkdir -p "$3"
    to=$(realpath "$3")
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    if [[ $2 == *.tar ]] || command -v xz >/dev/null; then
        tar -C "$place" -xf "$2"
    else
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="tar")' "$2" "$place"
    fi || exit 2
    # What the package leaves out because a checkout has it.
    for f in tests/fixtures models/nano; do
        [ -e "$place/$f" ] || [ ! -e "$f" ] || { mkdir -p "$(dirname "$place/$f")" && ln -s "$checkout/$f" "$place/$f"; }
    done
    bash "$place/tools/device/run.sh" "$to"
    exit
    ;;
--emulated)
    emulated=1
    shift
    ;;
--build | --commands)
    mode=$1
    arch=${2:-}
    [[ $arch =~ ^[0-9]+$ ]] || {
        echo "device-check: $mode needs a compute capability without its dot, as 90" >&2
        exit 2
    }
    shift 2
    ;;
esac
out=${1:-build/device}
carried=.device
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
cc=${CC:-gcc}
if [ "$mode" = --commands ]; then
    nvcc=nvcc
else
    rm -rf "$out/obj" "$out/tests" "$out/examples"
    mkdir -p "$out/obj" "$out/tests/cuda" "$out/examples/plugin" "$out/include" || exit 2
fi

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
fi
if [ -z "$emulated$mode" ]; then
    gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,clocks.sm,clocks.max.sm,clocks.mem,memory.total,power.limit \
        --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    [ -n "$gpu" ] || {
        echo "device-check: nvidia-smi finds no GPU" >&2
        exit 2
    }
    arch=$(cut -d, -f2 <<<"$gpu" | tr -d ' .')
fi

# jansson: what .device has, or the machine.
if [ "$mode" != --commands ] && { [ ! -e .device/jansson.h ] || [ ! -e .device/libjansson.a ]; }; then
    carried=$out/jansson
    mkdir -p "$carried"
    library=$("$cc" -print-file-name=libjansson.a)
    header=$(echo '#include <jansson.h>' | "$cc" -M -x c - 2>/dev/null | grep -o '[^ ]*/jansson.h')
    if [ "$library" = libjansson.a ] || [ -z "$header" ]; then
        echo "device-check: neither this machine nor .device has jansson (jansson.h, jansson_config.h and libjansson.a)" >&2
        exit 2
    fi
    ln -sf "$library" "${header%.h}"*.h "$carried/"
fi

# cuBLASLt and its header, and cuDNN, often lie where only Python looks for them.
nvidia() { # pattern below site-packages/nvidia: the folder of the first file of that name
    python3 -c 'import glob, site, sys
for d in site.getsitepackages() + sys.path:
    for f in glob.glob(d + "/nvidia/" + sys.argv[1]):
        sys.exit(print(f.rsplit("/", 1)[0]))' "$1" 2>/dev/null
}
if [ -z "$emulated" ] && [ "$mode" != --commands ]; then
    blas=$(nvidia '*/include/cublasLt.h')
    # Its headers alone: the others there may be of another version than nvcc.
    [ -e "$(dirname "$nvcc")/../include/cublasLt.h" ] || [ -z "$blas" ] || ln -sf "$blas"/cublas*.h "$out/include/"
    blas=$(nvidia '*/lib/libcublasLt.so.*')
    for lib in "$blas" "$(nvidia '*/lib/libcudnn.so.9')" "$(nvidia '*/lib/libnvrtc.so.*')"; do
        [ -z "$lib" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lib
    done
fi

# ---- build --------------------------------------------------------------------------------------

# Products of warp groups are sm_90a's alone; what else there is runs on any device like this one.
arch_of() { # source
    case $arch,$1 in
    90,*/attend_wgmma.cu | 90,*/attend_bytes.cu | 90,*/product_cuda.cu) echo 90a ;;
    *) echo "$arch" ;;
    esac
}

# What the kernels are held to. The linker takes what is used, and that needs the C library alone.
flags=(-I. -D_GNU_SOURCE -O2 -march=native -ffp-contract=off -fopenmp -ffunction-sections -Wno-psabi)
sources=(harness/core/{status,dtype,dtype_isa,rng,opts,clock,tensor,path,isa,infile,utf8,library}.c harness/device/*.c methods/*.c methods/*/*.c
    methods/*/*/*.c harness/cache/*.c harness/engine/{ops*,gemm,gemm_cuda,draw}.c tools/device/{stubs,gemm_plain,sha256_plain}.c
    harness/engine/text/umt5_{cpu,cuda_table}.c harness/engine/vae/{vae_cpu,vae_cuda_table}.c
    harness/bench/{bench,turns_cuda,bench_codec,bench_codec_cuda,bench_attention_cuda,bench_cudnn,bench_gemm_cuda,bench_layers_cuda}.c)
# Hot loops are compiled once per instruction set, with the Makefile's flags.
# shellcheck disable=SC2034 # the Makefile's flags name it
ARCH=native
machine=$(uname -m)
eval "$(sed -nE 's/\$\(([A-Za-z0-9_]+)\)/$\1/g; s/^((DOT_)?ISAS_'"$machine"'|FLAGS_[a-z0-9]+) *:= *(.*)/\1="\3"/p' Makefile)"
isas=ISAS_$machine dots=DOT_ISAS_$machine
variants() { # source: the instruction sets that it is compiled for
    case $1 in
    *_isa.c) echo "${!isas:-portable}" ;;
    *_dot.c) echo "${!dots:-portable}" ;;
    esac
}
# Each is a program of its own; test_kernels.c has the cases beside it.
programs=(tests/cuda/test_{kernels,codec_cuda,policy_cuda,names}.c tests/cache/test_{rows,device}.c)
programs+=(tests/engine/test_{device,wan_tiny}.c)
engine=()
for f in harness/core/{json,safetensors,safetensors_write,outfile,hostmem,remember}.c harness/engine/*.c harness/workload/*.c \
    harness/workload/trace/*.c harness/files/weights/*.c \
    tests/tiny_model.c; do
    [[ " ${sources[*]} harness/engine/gemm_cpu.c " == *" $f "* ]] || engine+=("$f")
done
flat() { printf '%s' "${1//\//_}"; }
name_of() { printf '%s_%s' "$(basename "$(dirname "$1")")" "$(basename "$1" .c)"; }
build() { # object command...
    local o=$1
    shift
    printf '%s\0' "$* -o $o"
}
commands() {
    # The slowest first: a kernel's object takes as long as everything else.
    for f in harness/*/*.cu harness/*/*/*.cu methods/*/*.cu methods/*/*/*.cu; do
        if [ -z "$emulated" ]; then
            build "$out/obj/cuda_$(flat "$f").o" "$nvcc" -I. -std=c++17 -O3 -fmad=false -lineinfo \
                "-arch=sm_$(arch_of "$f")" "-I$out/include" -c "$f"
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
        for i in $(variants "$f"); do
            more=FLAGS_$i
            build "$out/obj/lib_$(flat "$f").$i.o" "$cc" -std=c17 -Itools/device/check -Itools/device "-I$carried" "${flags[@]}" ${!more} "-DKVR_ISA=$i" -c "$f"
        done
        [ -n "$(variants "$f")" ] || build "$out/obj/lib_$(flat "$f").o" "$cc" -std=c17 -Itools/device/check -Itools/device "-I$carried" "${flags[@]}" -c "$f"
    done
    for f in texts salience; do
        build "$out/obj/lib_$f.o" "$cc" -std=c17 "${flags[@]}" -c "$out/obj/$f.c"
    done
    for f in "${engine[@]}"; do
        build "$out/obj/engine_$(flat "$f").o" "$cc" -std=c17 -Itools/device/check -Itools/device "-I$carried" "${flags[@]}" -c "$f"
    done
    for f in tests/cuda/both.c tests/cuda/cases_*.c; do
        build "$out/obj/cases_$(flat "$f").o" "$cc" -std=c17 -Itools/device/check -Itools/device "${flags[@]}" -c "$f"
    done
    for f in "${programs[@]}"; do
        build "$out/obj/main_$(flat "$f").o" "$cc" -std=c17 -DSHIM_MAIN -Itools/device/check -Itools/device \
            "-I$carried" "${flags[@]}" -c "$f"
    done
    build "$out/obj/main_bench.o" "$cc" -std=c17 "${flags[@]}" -c tools/device/bench_main.c
    build "$out/obj/main_forward.o" "$cc" -std=c17 "-I$carried" "${flags[@]}" -c tools/device/forward_main.c
    build "$out/examples/plugin/center.so" "$cc" -std=c17 "${flags[@]}" -fPIC -shared examples/plugin/center.c
}
if [ "$mode" = --commands ]; then
    commands | tr '\0' '\n'
    exit 0
fi
# What the program carries of other files.
sh tools/embed/embed-texts.sh methods/script/*.py >"$out/obj/texts.c"
sh tools/embed/embed-bytes.sh kvr_salience_nano models/nano/salience.safetensors >"$out/obj/salience.c"
commands >"$out/commands"
rm -f "$out"/lib*.a
xargs -0 -P "$(nproc)" -I{} bash -c '{}' <"$out/commands" >"$out/build.log" 2>&1 || {
    echo "device-check: the build failed" >&2
    tail -n 40 "$out/build.log" >&2
    exit 1
}
ar rcs "$out/libkvreel.a" "$out"/obj/lib_*.o
ar rcs "$out/libengine.a" "$out"/obj/engine_*.o
libs=("$out/libengine.a" "$carried/libjansson.a" -lm -ldl -lpthread)
link() { # program objects...
    local program=$1
    shift
    # -rdynamic, and all of the library: a plug-in takes what it needs from the program. nvcc knows
    # where its own libraries are.
    # shellcheck disable=SC2054 # they are one word of nvcc's
    local ld=("$nvcc" "-arch=sm_$arch" -Xcompiler -fopenmp,-rdynamic)
    [ -z "$emulated" ] || ld=("$cc" -fopenmp -rdynamic)
    "${ld[@]}" -o "$program" "$@" "$out"/obj/cuda_*.o -Xlinker --gc-sections -Xlinker --whole-archive \
        "$out/libkvreel.a" -Xlinker --no-whole-archive "${libs[@]}" >>"$out/build.log" 2>&1 || {
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
link "$out/forward" "$out/obj/main_forward.o"
echo "device-check: built after $SECONDS s"
[ -z "$mode" ] || exit 0

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
run_tests() { # seconds program.c
    local name log start rc n bad
    name=$(name_of "$2")
    log=$out/$name.log
    start=$SECONDS
    within "$([ -n "$emulated" ] && echo 600 || echo "$1")" "$out/tests/cuda/$name" >"$log" 2>&1
    rc=$?
    [ "$rc" -eq 0 ] || verdict=1
    read -r n bad < <(sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\).*/\1 \2/p' "$log") || n="" bad=""
    checks=$((checks + ${n:-0}))
    failures=$((failures + ${bad:-1}))
    printf '%-22s exit %3d, %s checks, %s failures, %d s\n' "$name" "$rc" "${n:-?}" "${bad:-?}" $((SECONDS - start))
    [ "$rc" -eq 0 ] || tail -n 15 "$log"
    per_program+="${per_program:+, }\"$name\": {\"exit\": $rc, \"checks\": ${n:-null}, \"failures\": ${bad:-null}, \"seconds\": $((SECONDS - start))}"
}
# rows STEP command...: rows of JSON, a line each. What came before a failure or a limit is kept.
rows() {
    local step=$1 rc
    shift
    within "$([ -n "$emulated" ] && echo 600 || seconds_of "$step")" "$@" >"$out/$step.jsonl" 2>"$out/$step.err"
    rc=$?
    [ "$rc" -eq 0 ] || {
        echo "device-check: $step: exit $rc: $(tail -n 3 "$out/$step.err")" >&2
        [ "$rc" -eq 124 ] || verdict=1
    }
    # A line that a limit cut off is no row.
    sed -i '/}$/!d' "$out/$step.jsonl"
}
rounds=$([ -n "$emulated" ] && echo 3 || echo 15)
rm -f "$out"/*.jsonl "$out"/*.log.tmp

run_tests "$(seconds_of kernels)" tests/cuda/test_kernels.c
grep -h '^CUDA: ' "$out/cuda_test_kernels.log"
rows occupancy "$out/bench" "$rounds" occupancy
rows attention "$out/bench" "$rounds" attention
if [ -z "$emulated" ] && within 30 python3 -c 'import torch' 2>/dev/null; then
    rows pytorch python3 tools/device/sdpa.py "$rounds"
fi
ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null)
if [ -z "$emulated" ] && [ -n "$ncu" ]; then
    for kernel in attend_mma_rows attend_mma_coded; do
        within $(($(seconds_of profile) / 2)) "$ncu" --csv --page details --kill yes -k "regex:$kernel" -c 1 \
            --section SchedulerStats --section WarpStateStats --section ComputeWorkloadAnalysis \
            --section MemoryWorkloadAnalysis "$out/bench" 3 attention 2>>"$out/profile.err" |
            grep '^"' >"$out/profile-$kernel.csv" || rm -f "$out/profile-$kernel.csv"
    done
fi
rows codecs "$out/bench" "$rounds" codec
model=models/wan-1.3b-random
if [ -n "$emulated" ]; then # Wan's own would take days
    model=$out/model
    mkdir -p "$model"
    sed -e 's/"dim": [0-9]*/"dim": 64/;s/"ffn_dim": [0-9]*/"ffn_dim": 64/;s/"num_heads": [0-9]*/"num_heads": 2/' \
        -e 's/"num_layers": [0-9]*/"num_layers": 2/;s/"text_dim": [0-9]*/"text_dim": 32/;s/"text_len": [0-9]*/"text_len": 16/' \
        -e 's/"freq_dim": [0-9]*/"freq_dim": 32/;s/"latent_height": [0-9]*/"latent_height": 4/' \
        -e 's/"latent_width": [0-9]*/"latent_width": 4/' models/wan-1.3b-random/config.json >"$model/config.json"
fi
rows forward "$out/forward" "$model" BF16 4 "$([ -n "$emulated" ] && echo 1 || echo 5)"

memcheck=null
racecheck=null
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$emulated" ] && [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck; do
        more=(--report-api-errors no) # a test asks for too much memory
        only=
        if [ "$tool" = racecheck ]; then # of all kernels it takes minutes
            more=()
            only='attention on tensor cores'
        fi
        CK_RUN_CASE=$only within "$(seconds_of "$tool")" "$sanitizer" --tool "$tool" "${more[@]}" --error-exitcode 9 \
            "$out/tests/cuda/cuda_test_kernels" >"$out/$tool.log" 2>&1
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
for f in "${programs[@]}"; do
    [ "$f" = tests/cuda/test_kernels.c ] || run_tests "$(seconds_of engine)" "$f"
done
rows layers "$out/bench" "$rounds" gemm

# ---- report -------------------------------------------------------------------------------------

text() { # a JSON string, or null
    [ -n "$1" ] && printf '"%s"' "${1//\"/}" || printf null
}
number() {
    [[ ${1// /} =~ ^[0-9.]+$ ]] && printf '%s' "${1// /}" || printf null
}
list() { # STEP...: their rows as an array; null where there are none
    local step lines=
    for step; do
        [ ! -s "$out/$step.jsonl" ] || lines+=$(sed 's/$/,/' "$out/$step.jsonl")$'\n'
    done
    lines=${lines%$'\n'}
    [ -n "$lines" ] && printf '[\n%s\n]' "${lines%,}" || printf null
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
  "occupancy": $(list occupancy),
  "bench": $(list attention codecs layers),
  "pytorch": $(list pytorch),
  "forward": $(list forward)
}
END
cat "$out/device.json"
cat "$out"/profile-*.csv 2>/dev/null
report "$out"
exit $verdict
