#!/usr/bin/env bash
# golden.sh - measures the results in results/golden again and reports the differences.
#
#     tools/measure/golden.sh build/kvreel [--write] [--part codes|forced|free] [--method NAME [--as OTHER]]
#                                          [-- ARGUMENTS FOR kvreel]
#
# A free rollout is chaotic: another CPU adds in another order, which changes the PSNR by about 1 dB. Three
# parts therefore have different tolerances, each as tight as all CPUs allow:
#
#   codes    The bytes and a hash of the codes, scales, zero points and indices that each method stores for
#            pseudorandom keys and values. They must be equal, because encoding computes no sums of products.
#   forced   configs/golden.yaml. Cell keys and bytes must be equal. With forcing: step, each
#            forward has the BF16 rollout's chunks and latents as input, so its `latent_error` E = |x - r| / |r|
#            may differ by only 6e-5 (derived below).
#   free     configs/golden-free.yaml. The committed PSNR x must lie in the prediction interval of five new
#            draws with mean m and standard deviation s: |x - m| <= t s sqrt(1 + 1/5). t = 8.610 is
#            Student's t with 4 degrees of freedom, two-sided 99.9 %.
#
# Derivation of 6e-5. Keys and values of two CPUs differ by a relative d = 1e-6: sums of some hundred terms, each
# rounded by 2^-24 = 6e-8, in several layers. Let q be the distance of two quantization levels relative to the values.
# A fraction d / q of the values then rounds to the neighbouring level, which is an RMS error of q sqrt(d / q) =
# sqrt(d q). Both rollouts are rounded to BF16, where q = 2^-8. This gives 6e-5 for every method, in units of |r|.
# Two-bit codes have q near 1. However, a value between two levels has an error of half a step with either level,
# so the size of its error stays the same.
#
# The largest difference measured is 2.2e-5, over portable, avx2, avx512 and 18 methods with E from .0025 to
# .29. An RTN_INT2 whose step is wrong by 1/256 differs by 7e-4 (tests/cli/test_golden.sh).
#
# --as measures the method OTHER in place of NAME, to test that a difference is reported.
# shellcheck disable=SC2317 # new_* are called by the name of their part
set -uo pipefail

kvreel=$1
shift
write='' only='' method='' as=''
while [ $# -gt 0 ]; do
    case $1 in
    --write) write=1 ;;
    --part) only=$2 && shift ;;
    --method) method=$2 && shift ;;
    --as) as=$2 && shift ;;
    --) shift && break ;;
    *) echo "golden: what is $1?" >&2 && exit 2 ;;
    esac
    shift
done
extra=("$@")
golden=results/golden
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# sweep CONFIG: runs a config into $dir/golden.db, with only BF16 and the method of --method if that was
# given.
sweep() {
    local set=()
    [ -z "$method" ] || set=(--set "methods=[BF16, {method: ${as:-$method}, label: $method}]")
    rm -rf "$dir/golden.db" "$dir/out"
    "$kvreel" run "$1" --db "$dir/golden.db" --out "$dir/out" --jobs 2 "${set[@]}" "${extra[@]}" \
        >/dev/null 2>"$dir/log" && return
    cat "$dir/log" >&2
    exit 1
}

ask() { "$kvreel" query --db "$dir/golden.db" --csv "$1" | tr -d '\r'; }

codes_of() { # NAMES
    local n
    for n; do
        "$kvreel" codec -m "${as:-$n}" --draw 432x2x64 -O tokens_per_frame=144 -O frames_per_chunk=1 \
            --json "${extra[@]}" >"$dir/code-$n" || return
    done
    # Calls jq once for all files, because jq takes longer to start than a codec to run.
    jq -r '[(input_filename | sub(".*/code-"; "")), .nominal_bytes, .resident_bytes, .stored_sha256] |
        join(",")' "${@/#/$dir/code-}"
}

# Encodes with each half of the methods in a process of its own.
new_codes() {
    local names=("$method") half
    [ -n "$method" ] || mapfile -t names < <("$kvreel" list methods --json |
        jq -r '.[] | .name, (if .study then .name + "@study" else empty end)' | LC_ALL=C sort)
    half=$((${#names[@]} / 2))
    codes_of "${names[@]:0:half}" >"$dir/first" &
    echo method,nominal_bytes,resident_bytes,stored_sha256
    codes_of "${names[@]:half}" >"$dir/second" || exit 1
    wait $! || exit 1
    cat "$dir/first" "$dir/second"
}

new_forced() {
    sweep configs/golden.yaml
    ask "SELECT c.method, c.rollout AS key, c.nominal_bytes, c.resident_bytes,
             printf('%.6e', m.value) AS latent_error
         FROM cell c JOIN metric m ON m.cell = c.key AND m.name = 'latent_error' ORDER BY c.method"
}

# Draw 0 of the committed file is compared with all five draws of this run.
new_free() {
    sweep configs/golden-free.yaml
    ask "SELECT c.method, coalesce(json_extract(c.spec, '\$.jitter'), 0) AS draw,
             printf('%.4f', m.value) AS psnr_db
         FROM cell c JOIN metric m ON m.cell = c.key AND m.name = 'psnr'
         WHERE c.name <> 'BF16' ORDER BY c.method, draw"
}

differences='
    function off(a, b) { return a > b ? a - b : b - a }
    function say(what) { print "golden: " part ": " $1 ": " what; bad = 1 }
    # All columns must be equal, except the last one of `forced`, which has a tolerance. NaN counts as a
    # difference.
    function compare(    o, i) {
        split(old[$1], o, ",")
        for (i = 2; i <= nf; i++)
            if (part == "forced" && i == nf) {
                if (!(off($i, o[i]) <= 6e-5)) say(name[i] " " o[i] " -> " $i)
            } else if ($i != o[i])
                say(name[i] " " o[i] " -> " $i)
    }
    function judge(m,    i, mean, s, k) {
        for (i = 0; i < n_draws[m]; i++) mean += draw[m, i] / n_draws[m]
        for (i = 0; i < n_draws[m]; i++) s += (draw[m, i] - mean) ^ 2 / (n_draws[m] - 1)
        k = 8.610 * sqrt(s * (1 + 1 / n_draws[m]))
        $1 = m
        if (n_draws[m] != 5) say(n_draws[m] " draws, need 5")
        else if (!(off(old[m], mean) <= k))
            say(sprintf("psnr_db %s, the draws say %.4f +- %.4f", old[m], mean, k))
    }
    BEGIN { FS = "," }
    FNR == 1 { file++; nf = split($0, name, ","); next }
    part == "free" && file == 1 { if ($2 == 0) old[$1] = $3; next }
    part == "free" { if (!($1 in old)) say("is new"); else draw[$1, n_draws[$1]++ + 0] = $3; seen[$1] = 1; next }
    file == 1 { old[$1] = $0; next }
    { seen[$1] = 1; if (!($1 in old)) print "golden: " part ": " $1 ": is new"; else compare() }
    END {
        for (m in old) {
            if (only != "" && m != only) continue
            $1 = m
            if (!(m in seen)) say("is gone")
            else if (part == "free") judge(m)
            n++
        }
        if (!n) { print "golden: " part ": nothing was measured"; bad = 1 }
        print "golden: " part ": " n " rows compared"
        exit bad
    }'

for part in codes forced free; do
    [ -z "$only" ] || [ "$only" = "$part" ] || continue
    "new_$part" >"$dir/new.csv" || { cat "$dir/new.csv" && exit 1; }
    [ -z "$method" ] || { head -n 1 "$dir/new.csv" && grep "^$method," "$dir/new.csv"; } >"$dir/one.csv"
    [ -z "$method" ] || mv "$dir/one.csv" "$dir/new.csv"
    if [ -n "$write" ]; then
        cp "$dir/new.csv" "$golden/$part.csv"
        echo "golden: wrote $golden/$part.csv"
    else
        awk -v part="$part" -v only="$method" "$differences" "$golden/$part.csv" "$dir/new.csv" || bad=1
    fi
done
exit "$bad"
