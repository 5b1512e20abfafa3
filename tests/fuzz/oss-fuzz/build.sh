#!/usr/bin/env bash
# build.sh - builds every fuzz target, with its seeds, into $OUT, as OSS-Fuzz requires.
#
#   OUT=/tmp/out bash tests/fuzz/oss-fuzz/build.sh
#
# CC and CFLAGS compile the targets and the parsers that they test; HOST_CC compiles the rest of kvreel. docs/install.md
# lists the packages that kvreel's build needs. The script also copies the files of the repository that targets open.
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
    make -s fuzz-list FUZZ="$t" | tr ' ' '\n' | while read -r seed; do # folders may have files of the same name
        [ ! -f "$seed" ] || cp "$seed" "$build/fuzz/seeds/$t/${seed//\//_}"
    done
    (cd "$build/fuzz/seeds/$t" && python3 -m zipfile -c "$out/fuzz_${t}_seed_corpus.zip" ./*)
    printf '[libfuzzer]\nmax_len = 65536\ntimeout = 10\n' >"$out/fuzz_$t.options"
    [ ! -e "tests/fuzz/dict/$t.dict" ] || cp "tests/fuzz/dict/$t.dict" "$out/fuzz_$t.dict" # OSS-Fuzz finds a target's dictionary by this name
done
for f in models/nano/config.json tests/fixtures/wan_real/spiece.model; do # paths that targets open
    mkdir -p "$out/$(dirname "$f")"
    cp "$f" "$out/$f"
done
