#!/usr/bin/env bash
# lint.sh - formatting, static analysis, headers that stand alone, and a second compiler.
#
# A tool that is not installed is named and left out; whatever is found fails the goal.
set -uo pipefail

mapfile -t sources < <(git ls-files '*.c')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
bad=0

step() { # name command...
    local name=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        echo "ok    $name"
    else
        echo "FAIL  $name"
        sed 's/^/      | /' "$log" | head -n 80
        bad=1
    fi
    rm -f "$log"
}

have() { # tool what-for
    command -v "$1" >/dev/null && return 0
    echo "skip  $2: $1 is not installed"
    return 1
}

warn=(-Wall -Wextra -Werror -Wshadow)
strict=(-Wstrict-prototypes -Wmissing-prototypes)
# shellcheck disable=SC2207  # flags are words
flags=($(pkg-config --cflags jansson yaml-0.1 sqlite3 libcrypto libavformat libavcodec libavutil \
    libswscale check 2>/dev/null) -I. -D_GNU_SOURCE)

alone() { # language standard compiler headers...
    local lang=$1 std=$2 cc=$3 h rc=0
    shift 3
    for h in "$@"; do
        # The include comes twice: a header without a guard fails here.
        printf '#include "%s"\n#include "%s"\n' "$h" "$h" |
            "$cc" -x "$lang" -std="$std" -march=native -Wall -Wextra -Werror "${flags[@]}" -fopenmp -fsyntax-only - || rc=1
    done
    return "$rc"
}

# Names the files; `make format` mends them.
formatted() {
    local f rc=0
    for f in "$@"; do
        if ! clang-format --dry-run -Werror "$f" 2>/dev/null; then
            echo "$f"
            rc=1
        fi
    done
    return "$rc"
}

clang_builds() {
    local f rc=0
    for f in "${sources[@]}"; do
        clang -std=c17 "${warn[@]}" "${strict[@]}" "${flags[@]}" -march=native -fopenmp \
            -fsyntax-only "$f" || rc=1
    done
    return "$rc"
}

if have clang-format formatting; then
    step "formatting of $((${#sources[@]} + ${#headers[@]})) files" \
        formatted "${sources[@]}" "${headers[@]}"
fi
if have gcc 'headers alone'; then
    step "headers alone, C17" alone c c17 gcc "${headers[@]}"
    seam=()
    for h in "${headers[@]}"; do
        case $h in
        harness/core/*.h | harness/cache/cache.h | methods/*.h) seam+=("$h") ;;
        esac
    done
    step "headers of the seam alone, C++17" alone c++ c++17 g++ "${seam[@]}"
fi
if have clang 'the second compiler'; then
    step "clang takes every source" clang_builds
fi
if have cppcheck cppcheck; then
    # Without the tests: Check's macros hide from it which assertions end a function.
    mapfile -t product < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/')
    # System headers are not read (they take minutes), so loops that hide in their macros are
    # spelled out here.
    step "cppcheck" cppcheck --quiet --error-exitcode=1 --std=c11 --language=c -I. -D_GNU_SOURCE \
        '-Djson_object_foreach(o,k,v)=while((k=next_key(o))&&(v=next_value(o)))' \
        '-Djson_array_foreach(a,i,v)=while((v=element(a,i=next_index(a))))' \
        --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem \
        --suppress='*:/usr/*' -j 2 "${product[@]}"
fi
if have shellcheck 'shell scripts'; then
    step "shell scripts" shellcheck -x -S warning -e SC2154 "${scripts[@]}"
fi
exit $bad
