#!/usr/bin/env bash
# pack.sh - builds the archive that tools/device-check.sh --run needs on a machine with a GPU. It contains kvreel,
# the tests of its kernels, the benchmarks, and shared libraries other than the C library and NVIDIA's.
#
#     tools/device-check.sh --pack FILE.tar.xz              kernels compiled by nvcc for ARCH (default 90)
#     tools/device-check.sh --pack FILE.tar.xz --emulated   emulated kernels, to test the package without a GPU
#
# A FILE that ends in .tar is not compressed. DATA=1 adds tests/fixtures/wan_tiny and models/nano (26 MB,
# which a checkout already has). BUILD is the build folder (default build-device; with --emulated, build).
# MOST_MIB is the maximum size of the archive in MiB (default 45). LEVEL is the preset of xz (default 3).
# PROGRAMS="bin/tests/NAME=FILE ..." packs these files instead of building and packing the default ones.
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
    PROGRAMS+=" bin/examples/plugin/center.so=$build/examples/plugin/center.so" # a plug-in that a test loads
fi

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/bin/tests" "$place/lib" "$place/gcc"
for program in $PROGRAMS; do
    mkdir -p "$(dirname "$place/${program%%=*}")"
    cp "${program#*=}" "$place/${program%%=*}"
    strip "$place/${program%%=*}" 2>/dev/null || true # strip fails on scripts, which stay unchanged
done
# GCC's libraries go to gcc/, because run.sh uses them only on a machine that lacks one of the three. A newer
# GCC library has all symbols of an older one.
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
# Ten programs contain the same static library. With a 128 MiB dictionary, xz stores it only about once.
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
