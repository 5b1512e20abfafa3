#!/usr/bin/env bash
# check-library.sh - checks that a process that has loaded many other libraries can still load libkvreel.so.
#
#     tools/lint/check-library.sh build/libkvreel.so
#
# glibc reserves about 1.6 KiB of static thread-local storage (TLS) for libraries that are loaded after the
# program's start. All such libraries that use static TLS (flag STATIC_TLS) share this reserve, so kvreel must
# not use it. The script also limits the library's TLS to 1 KiB and each static writable object to 16 KiB:
# buffers belong to codecs and caches, which allocate them. The one exception is the reserve of
# harness/core/json.c, which is needed after an allocation has failed.
set -uo pipefail

library=${1:?usage: tools/lint/check-library.sh LIBRARY}
tls_limit=1024 object_limit=16384
bad=0
complain() {
    echo "$library: $*"
    bad=1
}

[ -s "$library" ] || {
    complain "there is no such file (make lib)"
    exit 1
}
tls=$(($(readelf -lW "$library" | awk '$1 == "TLS" { print $6; found = 1 } END { if (!found) print 0 }')))
[ "$tls" -lt "$tls_limit" ] || {
    complain "$tls bytes of thread-local data, $tls_limit are the limit; the largest:"
    readelf -sW "$library" | awk '$4 == "TLS" { print "    " $3, $8 }' | sort -rn | head -n 3
}
if readelf -dW "$library" | grep -q STATIC_TLS; then
    complain "STATIC_TLS: an object with thread-local data was compiled without -fPIC (PIC_OBJ, EMU_OBJ in the Makefile)"
fi
readelf -dW "$library" | grep -q NODELETE ||
    complain "no NODELETE: threads of OpenMP that wait would lose their code in dlclose()"
large=$(nm -S "$library" | awk -v limit="$object_limit" '$3 ~ /^[bBdD]$/ && $4 != "reserve" { print $2, $4 }' |
    while read -r size name; do
        [ $((16#$size)) -lt "$object_limit" ] || echo "    $((16#$size)) $name"
    done)
[ -z "$large" ] || complain "writable objects of $object_limit bytes and more:"$'\n'"$large"
exit $bad
