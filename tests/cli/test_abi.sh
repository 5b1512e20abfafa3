#!/usr/bin/env bash
# libkvreel.so: its exported symbols match the header, and a C program that includes only the header uses it.
. tests/cli/lib.sh || exit 1
library=$(dirname "$kvreel")/libkvreel.so
cc=${CC:-gcc}

check "libkvreel.so exists (make lib)" test -s "$library"
for language in "c -std=c17" "c++ -std=c++17"; do
    # shellcheck disable=SC2086
    check "the header alone compiles as $language" "$cc" -x $language -Wall -Wextra -Werror -fsyntax-only harness/abi/kvreel.h
done
abi=$(sed -n 's/^#define KVREEL_ABI //p' harness/abi/kvreel.h)
check "the SONAME has the ABI number" bash -c "objdump -p '$library' | grep -q 'SONAME *libkvreel.so.$abi\$'"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/there"
grep -oE '\bkvreel_[a-z0-9_]+\(' harness/abi/kvreel.h | tr -d '(' | sort -u >"$work/said"
check "the library exports exactly the functions in the header" diff "$work/there" "$work/said"
# Removing or changing a function breaks existing programs. Such a change requires a higher ABI number and a new list
# of functions here.
for name in abi version error registry free method_open method_close method_name predict block_encode block_free \
    block_decode block_attend block_bytes block_hash cache_open cache_close cache_reset cache_begin cache_append \
    cache_attend cache_commit cache_end cache_read cache_bytes cache_times to_f32; do
    check "ABI 1 has kvreel_$name" grep -qx "kvreel_$name" "$work/there"
done
check "the ABI number is that of the list above" test "$abi" -eq 1
check "a program that includes only the header builds" "$cc" -std=c17 -Wall -Wextra -Werror -I harness/abi tests/abi/use.c \
    -o "$work/use" -L "$(dirname "$library")" -lkvreel -lm -Wl,-rpath,"$(dirname "$library")"
case $library in # a program that loads a sanitized library needs the sanitizer's runtime
*/build-*) skip "the program runs with the library" "the library was built with sanitizers" ;;
*) check "the program runs with the library" "$work/use" ;;
esac

# The program late loads libkvreel.so after other libraries have used up glibc's reserve of static TLS. A renamed
# copy of libgomp acts as a second OpenMP runtime, such as that of a torch wheel.
check "thread-local and writable data of the library are small" bash tools/lint/check-library.sh "$library"
check "the program late builds" "$cc" -std=c17 -D_GNU_SOURCE -I. -Wall -Wextra -Werror -pthread tests/abi/late.c \
    -o "$work/late" -lm -ldl
eaters=
for bytes in 1024 128 16 1; do
    check "a library with $bytes bytes of static TLS builds" "$cc" -shared -fPIC -DBYTES=$bytes tests/abi/eater.c -o "$work/eat$bytes.so"
    eaters=$eaters${eaters:+,}$work/eat$bytes.so
done
mapfile -t needed < <(ldd "$library" | awk '$3 ~ /^\// && $3 !~ /\/libc\.so/ { print $3 }')
gomp=$(printf '%s\n' "${needed[@]}" | grep '/libgomp\.so\.1$')
case $library in
*/build-*) skip "late loads the library without free static TLS" "the library was built with sanitizers" ;;
*)
    # An earlier version needed 66592 bytes of static TLS for QJL's buffer, so that no program could load the
    # library.
    "$cc" -shared -fPIC -DBYTES=66592 tests/abi/eater.c -o "$work/large.so"
    check "check-library.sh refuses a library with 66592 bytes of static TLS" bash -c \
        '! bash tools/lint/check-library.sh "$1" >"$2" && grep -q "66592 bytes of thread-local data" "$2" && grep -q STATIC_TLS "$2"' \
        _ "$work/large.so" "$out"
    check "late cannot load the library with 66592 bytes of static TLS" bash -c '! "$@" >"$0" 2>&1 && grep -q "large.so: cannot allocate memory in static TLS" "$0"' \
        "$out" "$work/late" "$work/large.so" "$work" "$eaters" "${needed[@]}"
    three_threads
    check "late loads, closes and loads the library without free static TLS" "$work/late" "$library" \
        "$work" "$eaters" "${needed[@]}"
    if [ -n "$gomp" ]; then
        LC_ALL=C sed 's/libgomp\.so\.1/libgomq.so.1/g' "$gomp" >"$work/libgomq.so.1"
        check "late runs the library beside another OpenMP runtime" "$work/late" "$library" "$work" "$eaters" \
            "${needed[@]}" -- "$work/libgomq.so.1"
    else
        skip "late runs the library beside another OpenMP runtime" "the library was not built with GNU's OpenMP"
    fi
    ;;
esac
