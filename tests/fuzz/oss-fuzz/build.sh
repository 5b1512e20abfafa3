#!/usr/bin/env bash
# build.sh - every fuzz target with its seeds into $OUT, the way that OSS-Fuzz asks.
#
#   OUT=/tmp/out bash tests/fuzz/oss-fuzz/build.sh
#
# CC and CFLAGS are those of the targets and of the parsers that they are for; the rest is built by
# HOST_CC. Packages: those of docs/install.md. Targets that read files of the repository get them.
set -euo pipefail
cd "$(dirname "$0")/../../.."
out=${OUT:?where the targets go}
build=${BUILD:-$PWD/build-oss-fuzz}
flags=${CFLAGS:--O1 -fsanitize=fuzzer-no-link,address}
unset CFLAGS CXXFLAGS
make -j"$(nproc)" BUILD="$build" CC="${HOST_CC:-gcc}" FUZZ_CC="${CC:-clang}" FUZZ_FLAGS="$flags" \
    LIB_FUZZING_ENGINE="${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}" fuzz-build
mkdir -p "$out"
for source in tests/fuzz/fuzz_*.c; do
    t=$(basename "$source" .c)
    t=${t#fuzz_}
    cp "$build/fuzz/$t" "$out/fuzz_$t"
    mkdir -p "$build/fuzz/seeds/$t"
    make -s fuzz-list FUZZ="$t" | tr ' ' '\n' | while read -r seed; do # names repeat in folders
        [ ! -f "$seed" ] || cp "$seed" "$build/fuzz/seeds/$t/${seed//\//_}"
    done
    (cd "$build/fuzz/seeds/$t" && python3 -m zipfile -c "$out/fuzz_${t}_seed_corpus.zip" ./*)
    printf '[libfuzzer]\nmax_len = 65536\ntimeout = 10\n' >"$out/fuzz_$t.options"
    [ ! -e "tests/fuzz/dict/$t.dict" ] || cp "tests/fuzz/dict/$t.dict" "$out/fuzz_$t.dict" # found by its name
done
for f in models/nano/config.json tests/fixtures/wan_real/spiece.model; do # read from where they run
    mkdir -p "$out/$(dirname "$f")"
    cp "$f" "$out/$f"
done
