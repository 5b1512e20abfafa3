#!/usr/bin/env bash
# deps.sh - installs, with apt, the missing packages for building, testing and running the demo.
#
#     tools/deps.sh           compiler, libraries, the test framework, gnuplot, ffmpeg, Python with NumPy
#     tools/deps.sh --lint    the same, and the tools of `make lint`
#     tools/deps.sh --neon    the same as without an option, and the tools of `make check-kernels-neon`: a
#                             compiler for ARM, and QEMU, which also emulates an x86 CPU without AVX
#     tools/deps.sh --tests   the same as without an option, and the optional dependencies of tests: a browser,
#                             shells, QEMU, Slurm, a virtual environment (tools/test/test-venv.sh) and the
#                             weights of the metric stlpips. KVREEL_TEST_ALL=1 selects --tests
#
# The script prints the packages that it installs. It asks for a password only if sudo needs one. If no
# package is missing, it uses neither the network nor the package lists.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
    build-essential pkg-config git
    libdnnl-dev libjansson-dev libyaml-dev libsqlite3-dev libssl-dev libsentencepiece-dev
    libavformat-dev libavcodec-dev libavutil-dev libswscale-dev
    check gnuplot-nox fonts-dejavu-core ffmpeg jq sqlite3
    python3 python3-numpy
)
what=${1:-}
[ -n "$what" ] || [ -z "${KVREEL_TEST_ALL-}" ] || what=--tests
case $what in
'') ;;
--lint) packages+=(clang clang-format cppcheck shellcheck) ;;
--neon) packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user) ;;
--tests)
    packages+=(python3-venv chromium nodejs man-db groff zsh fish qemu-user slurm-wlm munge bubblewrap dpkg-dev)
    ;;
*)
    echo "deps: unknown argument '$1', need --lint, --neon, --tests or nothing" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "deps: no apt here; kvreel needs what these Debian packages hold: ${packages[*]}" >&2
    exit 0
fi

# Installs dependencies that are not in apt: NVIDIA's disassembler for --lint; the virtual environment and the
# weights of stlpips for --tests.
finish() {
    case $what in
    --lint)
        if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
            bash tools/sass/nvdisasm.sh --install >/dev/null
        fi
        exit 0
        ;;
    --tests) ;;
    *) exit 0 ;;
    esac
    bash tools/test/test-venv.sh
    python=$(bash tools/test/test-python.sh)
    PIP="$python -m pip" bash tools/fetch/fetch-stlpips.sh
    exit 0
}

missing=()
for p in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "deps: nothing to install"
    finish
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=(sudo)
    else
        echo "deps: missing: ${missing[*]}" >&2
        echo "deps: no way to become root here; run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
fi

echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quiet() {
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        echo "deps: failed: $*" >&2
        exit 1
    fi
}
# A failed refresh of the package lists is no error: the packages may be in apt's cache.
"${as_root[@]}" apt-get update >"$log" 2>&1 || echo "deps: apt-get update failed, going on" >&2
# A new machine often runs its own upgrades; the timeout waits for their lock.
quiet "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${missing[@]}"
echo "deps: installed ${#missing[@]} packages"
finish
