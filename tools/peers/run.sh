#!/usr/bin/env bash
# run.sh - measures kvreel and every installed peer (another project's code), and writes one markdown file.
#
#   tools/peers/run.sh OUT.md [PYTHON]
#
# PYTHON (default python3) needs the packages in tools/peers/README.md. Peers without their package are skipped.
# Variables:
#   STUDY=FOLDER      checkout of the study's repository
#   GGML=FOLDER       ggml's shared libraries, built for this CPU
#   THREADS=1,2 ROUNDS=N KVREEL=BINARY SHAPES=...    SHAPES: attention shapes of the peers' measurement
#   ISA=avx2|avx512|amx    limits kvreel, PyTorch with MKL, and oneDNN to these instructions, but not ggml
# The exit status is 1 if a peer's result disagrees with kvreel's.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

if [ $# -lt 1 ]; then
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
out=$1 python=${2:-python3} bad=0
common=(--kvreel "${KVREEL:-build/kvreel}" --threads "${THREADS:-1,2}")
[ -z "${ROUNDS:-}" ] || common+=(--rounds "$ROUNDS")
ggml=() study=() shapes=()
[ -z "${GGML:-}" ] || ggml=(--ggml "$GGML")
[ -z "${STUDY:-}" ] || study=(--study "$STUDY")
[ -z "${SHAPES:-}" ] || shapes=(--shapes "$SHAPES")

case ${ISA:-} in
'') ;;
avx2) export MKL_ENABLE_INSTRUCTIONS=AVX2 KVREEL_CPU=avx2 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 ;;
avx512) export MKL_ENABLE_INSTRUCTIONS=AVX512 KVREEL_CPU=vnni ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI ;;
amx) export KVREEL_CPU=amx_int8 ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX ;;
*) echo "run.sh: ISA=$ISA: need avx2, avx512 or amx" >&2; exit 2 ;;
esac
[ -z "${ISA:-}" ] || echo "run.sh: ISA=$ISA: kvreel's kernels $KVREEL_CPU, oneDNN up to $ONEDNN_MAX_CPU_ISA" >&2

has() { # modules...
    local m
    for m in "$@"; do
        "$python" -c "import $m" 2>/dev/null && continue
        echo "run.sh: $python has no $m: its peers are left out" >&2
        return 1
    done
}

peer() { # script arguments...
    "$python" "tools/peers/$1" "${common[@]}" "${@:2}" >>"$out" || bad=1
}

echo "# kvreel beside its peers" >"$out" || exit 2
if has numpy torch; then
    peer study_codecs.py "${study[@]}"
    peer attention_torch.py "${shapes[@]}"
fi
if has numpy && { [ -n "${GGML:-}" ] || has libggml; }; then
    peer ggml_codecs.py "${ggml[@]}"
    peer ggml_attention.py "${shapes[@]}" "${ggml[@]}"
fi
if compgen -G "models/smollm2-135m/*.gguf" >/dev/null && has numpy gguf; then
    peer lm_numpy.py
    if has llama_cpp; then peer llama_nll.py; fi
fi
echo "run.sh: $out" >&2
exit $bad
