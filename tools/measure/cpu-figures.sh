#!/usr/bin/env bash
# cpu-figures.sh - measures this build on this machine and writes the tables of docs/cpu-figures.md.
#
#     tools/measure/cpu-figures.sh BUILD/kvreel [docs/cpu-figures.md]
#     VARIANTS='avx2' THREADS='1' ROUNDS=9 SHAPE=768x9984x12x128 tools/measure/cpu-figures.sh ...
#
# Without a page, the script writes the tables to standard output. Sections of the page that the script does
# not write, such as those of other machines, are kept at the page's end.
#
# Each figure is a ratio to the reference named above its table, measured in the same run. The machine should
# be idle; its load average is printed above each table. A run takes about ten minutes on two cores.
set -euo pipefail

kvreel=$1 page=${2:-}
best=$("$kvreel" version --json | sed -n 's/.*"variant": *"\([a-z0-9_]*\)".*/\1/p')
variants=${VARIANTS:-avx2 ${best:-vnni}}
threads=${THREADS:-1 2}
rounds=${ROUNDS:-9}
shape=${SHAPE:-1560x14040x4x128}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
[ -z "$page" ] || exec >"$dir/page"

# measure NAME VARIANT THREADS ARGUMENT...: runs `kvreel bench ARGUMENT...` and writes its JSON to
# $dir/NAME.VARIANT.THREADS.
measure() {
    local name=$1 variant=$2 n=$3
    shift 3
    KVREEL_CPU=$variant OMP_NUM_THREADS=$n "$kvreel" bench "$@" --json \
        >"$dir/$name.$variant.$n" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
    sed -nE '/^bench: /{s///; s/, kernels [a-z0-9_]+ \(forced\)//; p}' "$dir/log" >"$dir/machine.$name.$variant.$n"
}

# Prints one line per row of a JSON file, with tabs between name, reference, ratio, median, unit and error.
fields() {
    tr -d '\n' <"$1" | sed 's/}, *{/}\n{/g' | sed 's/[][]//g' | awk '
        function field(key,   m) {
            if (match($0, "\"" key "\": *(\"[^\"]*\"|[^,}]*)")) {
                m = substr($0, RSTART, RLENGTH)
                sub(/^"[^"]*": */, "", m)
                gsub(/"/, "", m)
                return m
            }
            return ""
        }
        { print field("name") "\t" field("reference") "\t" field("ratio") "\t" field("median") \
              "\t" field("unit") "\t" field("error") }'
}

table() { # NAME TITLE
    local name=$1 v t f files=() tsv=()
    printf '\n## %s\n\n' "$2"
    for v in $variants; do for t in $threads; do
        [ -e "$dir/$name.$v.$t" ] || continue
        printf '* Column `%s, %s` (threads: %s): %s\n' "$v" "$t" "$t" "$(cat "$dir/machine.$name.$v.$t")"
        files+=("$v.$t")
    done; done
    for f in "${files[@]}"; do
        fields "$dir/$name.$f" >"$dir/$name.$f.tsv"
        tsv+=("$dir/$name.$f.tsv")
    done
    # A table cell is "ratio (median)". An error above its limit stops the script.
    awk -F'\t' -v n="${#files[@]}" -v heads="$(printf '%s\t' "${files[@]/./, }")" '
        BEGIN { split(heads, head, "\t"); for (f = 1; f <= n; f++) one[f] = head[f] ~ /, 1$/ }
        FNR == 1 { file++ }
        {
            key = $1
            sub(/\.(portable|avx2|avx512|avxvnni|vnni|amx_bf16|amx_int8|neon)\.t/, ".t", key)
            if (!(key in seen)) { order[++rows] = key; seen[key] = 1 }
            if (!index(refs, $2)) refs = refs (refs == "" ? "" : "`, `") $2
            unit = $5
            cell[key, file] = $3 == "null" ? "-" : one[file] ? sprintf("%.2f (%.3g)", $3, $4) : sprintf("%.2f", $3)
            # Limits of the relative error. int8 attention without VNNI has 7-bit codes (attend_dot.c), so its
            # limit is twice as large. bench allows BF16 attention an error of 2^-8 relative to the RMS of V. The
            # average of N random rows of V is at most sqrt(N) times smaller than V, so the error relative to the
            # output is at most sqrt(N) / 256. For example, the error of KIVI_INT2 at 4,800 keys is .0007
            # relative to V and .03 relative to the output.
            match(key, /x[0-9]+/)
            limit = key ~ /int8/ ? (head[file] ~ /^(portable|avx2|avx512),/ ? .04 : .02) \
                : key ~ /\.bf16\./ ? sqrt(substr(key, RSTART + 1, RLENGTH - 1)) / 256 : 1e-5
            if ($6 != "null" && !($6 + 0 <= limit)) { print "error of " key ": " $6 ", limit " limit >"/dev/stderr"; exit 1 }
        }
        END {
            print "\n" (index(refs, ",") ? "Names of references" : "Name of the reference") " in `kvreel bench`: `" refs "`. Rates are in " unit ".\n"
            line = "| row |"; rule = "|---|"
            for (f = 1; f <= n; f++) { line = line " " head[f] " |"; rule = rule "---:|" }
            print line
            print rule
            for (i = 1; i <= rows; i++) {
                line = "| `" order[i] "` |"
                for (f = 1; f <= n; f++) line = line " " cell[order[i], f] " |"
                print line
            }
        }' "${tsv[@]}"
}

cat <<'TEXT'
# CPU kernel figures

This page has speeds of attention, linear layers and codecs on one machine; `kvreel bench` measures your machine.
`tools/measure/cpu-figures.sh` writes this page. Columns are kernel variants (`KVREEL_CPU`) and numbers of threads
([cpu.md](cpu.md)). Lines above a table give each column's CPU (family/model/stepping) and load average. An entry is the
median ratio of the kernel's speed to its reference's speed; with one thread, the kernel's median rate is in
parentheses. The reference of attention is its two F32 GEMMs in oneDNN (`oneDNN products`). The reference of rows
`attention.int8` and `attention.bf16` is kvreel's F32 attention over BF16 tokens (`own F32 of BF16`). Relative errors of
F32 attention against FP64 attention over the decoded cache are 5e-7 to 2.3e-6. The errors of int8 attention are 1.0e-2
to 1.3e-2 with VNNI or AMX (8-bit codes) and 1.9e-2 to 2.1e-2 with AVX2 (7-bit codes). The errors of BF16 attention on
AMX tiles are 2e-3 to 9e-3, but 3.2e-2 with KIVI_INT2 at 4,800 tokens. Tokens with equal codes in a group have equal
BF16 rounding errors, which do not average out over many tokens.
TEXT
for v in $variants; do
    for t in $threads; do
        measure attention "$v" "$t" attention -n "$rounds"
        measure gemm "$v" "$t" gemm -n "$rounds"
    done
    measure large "$v" 1 attention -n 3 --shape "$shape"
    measure codec "$v" 2 codec -n "$rounds"
done
table attention "Attention"
threads=1 table large "Attention, a longer cache ($shape)"
table gemm "Linear layers"

# Each run of `bench codec` measures one thread and two threads. They are two columns of the table, which has only
# ratios.
threads=2
printf '\n## Codecs\n\n'
for v in $variants; do
    printf '* Column `%s`: %s\n' "$v" "$(cat "$dir/machine.codec.$v.2")"
    fields "$dir/codec.$v.2" | sed "s/^/$v\t/"
done >"$dir/codec.all"
# The rate of memcpy shows whether the host was busy (4 GB/s) or idle (10 GB/s and more).
awk -F'\t' '$2 ~ /\.t1$/ && $4 > 0 { rate = $5 / $4; if (!n++ || rate < low) low = rate; if (rate > high) high = rate; unit = $6 }
    END { printf "* memcpy with one thread reaches %.2g to %.2g %s, depending on the benchmark and load average\n", low, high, unit }' "$dir/codec.all"
grep INT4 "$dir/codec.all" | awk -F'\t' '
    {
        key = $2
        sub(/\.(portable|avx2|avx512|avxvnni|vnni|amx_bf16|amx_int8|neon)\.t/, ".t", key)
        t = key
        sub(/.*\.t/, "t", t)
        sub(/\.t[0-9]+$/, "", key)
        column = $1 ", " t
        if (!(key in row)) { rows[++n] = key; row[key] = 1 }
        if (!(column in seen)) { columns[++m] = column; seen[column] = 1 }
        if (!index(refs, $3)) refs = refs (refs == "" ? "" : ", ") $3
        cell[key, column] = $4 == "null" ? "-" : sprintf("%.2f", $4)
    }
    END {
        print "\nEntries are speeds of 4-bit codecs relative to " refs "; `kvreel bench codec` prints GB/s, also for other codecs.\n"
        line = "| row |"; rule = "|---|"
        for (c = 1; c <= m; c++) { line = line " " columns[c] " |"; rule = rule "---:|" }
        print line "\n" rule
        for (i = 1; i <= n; i++) {
            line = "| `" rows[i] "` |"
            for (c = 1; c <= m; c++) line = line " " cell[rows[i], columns[c]] " |"
            print line
        }
    }'

# Appends the old page's sections that this run did not write. A section is a level-2 heading and its text.
if [ -n "$page" ]; then
    if [ -e "$page" ]; then
        awk 'FNR == NR { if (/^## /) written[$0] = 1; next }
             /^## / { keep = !($0 in written); if (keep) print "" }
             keep && (!/^$/ || held) { print }
             { held = keep }' "$dir/page" "$page" | cat -s >"$dir/kept"
        cat "$dir/kept" >>"$dir/page"
    fi
    cp "$dir/page" "$page"
fi
