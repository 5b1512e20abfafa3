#!/usr/bin/env bash
# pack.sh - one archive with what tools/device-check.sh --run needs on a machine with a GPU: kvreel, the
# tests of its kernels, rows of bench, and every library but the C library's and NVIDIA's.
#
#     tools/device-check.sh --pack FILE.tar.xz              kernels by nvcc for ARCH (default 90)
#     tools/device-check.sh --pack FILE.tar.xz --emulated   kernels emulated, to try it out
#
# FILE.tar is not compressed.
# DATA=1 adds tests/fixtures/wan_tiny and models/nano (26 MB that a checkout has). BUILD names the build
# folder (default build-device; emulated: build). MOST_MIB (default 45) bounds the archive, LEVEL (3) is xz's.
# PROGRAMS="bin/tests/NAME=FILE ..." packs these files instead of what make builds.
set -euo pipefail
cd "$(dirname "$0")/../.."

file=${1:?pack.sh FILE [--emulated]}
mode=${2:-}
arch=${ARCH:-90}
backend=cuda
build=${BUILD:-build-device}
if [ "$mode" = --emulated ]; then
    backend=emulated
    build=${BUILD:-build}
fi
if [ -z "${PROGRAMS:-}" ]; then
    how=(-s -j"$(nproc)" BUILD="$build")
    if [ "$backend" = cuda ]; then
        nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || {
            echo "pack: no nvcc; --emulated needs none" >&2
            exit 2
        }
        ! command -v ccache >/dev/null || nvcc="ccache $nvcc"
        how+=(CUDA=1 CUDA_ARCH="$arch" NVCC="$nvcc")
    fi
    make "${how[@]}" packed
    PROGRAMS="bin/kvreel=$build/kvreel bin/bench=$build/device/tools/device/bench_main bin/forward=$build/device/tools/device/forward_main"
    for f in "$build"/device/tests/*/test_*[!.]?; do
        [ ! -x "$f" ] || PROGRAMS+=" bin/${f#"$build/device/"}=$f"
    done
    PROGRAMS+=" bin/examples/plugin/center.so=$build/examples/plugin/center.so" # of a test, beside it
fi

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin/tests" "$place/lib" "$place/gcc"
for program in $PROGRAMS; do
    mkdir -p "$(dirname "$place/${program%%=*}")"
    cp "${program#*=}" "$place/${program%%=*}"
    strip "$place/${program%%=*}" 2>/dev/null || true # or it is a script
done
# GCC's own libraries are taken where the machine has none (a newer one has all of the older one's symbols).
ldd "$place/bin/kvreel" | awk '$3 ~ /^\// { print $3 }' | while read -r lib; do
    case $lib in
    */libc.so.* | */libm.so.* | */libdl.so.* | */libpthread.so.* | */librt.so.* | */ld-linux*) ;;
    */libstdc++.so.* | */libgcc_s.so.* | */libgomp.so.*) cp -L "$lib" "$place/gcc/" ;;
    *) cp -L "$lib" "$place/lib/" ;;
    esac
done
git ls-files -z 'harness/*.cu' 'methods/*.cu' | xargs -0 cp --parents -t "$place"
cp --parents configs/cost-wan.yaml configs/cost-card.yaml configs/cost-cut.yaml configs/tiny.yaml \
    models/wan-1.3b-random/config.json models/wan-1.3b-1080p-random/config.json models/wan-14b-random/config.json tools/device/run.sh tools/device/sdpa.py tools/device/model.tsv "$place/"
[ -z "${DATA:-}" ] || cp -r --parents tests/fixtures/wan_tiny models/nano "$place/"
{
    echo "backend=$backend"
    [ "$backend" = emulated ] || echo "arch=$arch"
    echo "commit=$(git rev-parse HEAD)"
    echo "changes=$(git status --porcelain | grep -q . && echo true || echo false)"
    [ "$backend" = emulated ] || echo "cuda=$("${nvcc##* }" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    echo "packed=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
} >"$place/package"
mkdir -p "$(dirname "$file")"
# Ten programs with one library in each: a window that holds several of them finds the rest alike.
case $file in
*.tar) tar -C "$place" -cf "$file" . ;;
*) tar -C "$place" -cf - . | xz -T1 --lzma2=preset="${LEVEL:-3}",dict=128MiB >"$file" ;;
esac
size=$(stat -c %s "$file")
echo "pack: $file, $((size / 1024)) KiB, $backend, $(sed -n 's/^commit=//p' "$place/package" | cut -c 1-12)"
[ "$size" -le $((${MOST_MIB:-45} * 1048576)) ] || {
    echo "pack: more than ${MOST_MIB:-45} MiB" >&2
    exit 1
}
