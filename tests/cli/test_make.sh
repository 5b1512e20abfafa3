#!/usr/bin/env bash
# make runs one job per core for a single goal, or as many jobs as -j states. It runs several goals one after
# another. A fuzz target without seeds is an error.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cores=$(nproc)
flags() { # ARGUMENT...: prints the flags that this Makefile passes to a recipe
    env -u MAKELEVEL -u MAKEFLAGS -u MFLAGS make -s -C "$root" -f "$work/flags.mk" "$@" 2>&1
}
cat >"$work/flags.mk" <<'MK'
flags two: ; @echo '$@ $(filter -j%,$(MAKEFLAGS))'
include Makefile
MK
jobs_are() { # expected make's arguments...
    local want=$1
    shift
    flags "$@" >"$out"
    [ "$(cat "$out")" = "$want" ] || { cat "$out" && false; }
}
one="flags -j$cores"
check "make with one goal runs as many jobs as cores" jobs_are "$one" flags
check "make -j3 runs three jobs" jobs_are "flags -j3" -j3 flags
check "make -j1 runs one job" jobs_are "flags -j1" -j1 flags
check "make runs two goals one after another" jobs_are $'flags \ntwo ' flags two

# -j1: make stops at the missing seeds before it builds anything.
goal() { env -u MAKELEVEL -u MAKEFLAGS -u MFLAGS make -s -j1 -C "$root" "$@" >"$out" 2>"$err"; }
check "every fuzz target has seeds" goal fuzz-corpus
for g in fuzz-seeds fuzz fuzz-planted; do
    goal "$g" SEEDS_filter='tests/fuzz/corpus/none/*'
    check "make $g fails without the seeds of one target" test $? -ne 0
    says "make $g: the error names the target and the pattern" '^fuzz: target filter has no seeds: .*"tests/fuzz/corpus/none/\*"'
done
goal fuzz-seeds SEEDS_config='configs/*.yaml tests/fuzz/corpus/none/*'
says "one of two patterns matches nothing: the error names it" '^fuzz: target config has no seeds: .*corpus/none'
goal fuzz-seeds SEEDS_spec=
says "a target without patterns: the error names it" '^fuzz: target spec has no seeds: .*SEEDS_spec'
