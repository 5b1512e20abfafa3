#!/usr/bin/env bash
# One goal runs as many jobs as there are cores, or as many as -j says; several goals keep their order.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

cores=$(nproc)
flags() { # make's arguments: the flags that a recipe of this Makefile gets
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
check "one goal: as many jobs as cores" jobs_are "$one" flags
check "with -j3: three" jobs_are "flags -j3" -j3 flags
check "with -j1: one" jobs_are "flags -j1" -j1 flags
check "two goals: one after the other" jobs_are $'flags \ntwo ' flags two
