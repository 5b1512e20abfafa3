#!/usr/bin/env bash
# cpu-figures.sh - the tables of docs/cpu-figures.md, from runs of this build on this machine.
#
#     tools/cpu-figures.sh BUILD/kvreel >docs/cpu-figures.md
#     VARIANTS='avx2' THREADS='1' ROUNDS=9 SHAPE=768x9984x12x128 tools/cpu-figures.sh ...
#
# Every figure is a same-run ratio with the reference named in its row; the machine should have
# nothing else to do (the load stands above each table). About ten minutes on two cores.
set -euo pipefail

kvreel=$1
best=$("$kvreel" version --json | sed -n 's/.*"variant": *"\([a-z0-9]*\)".*/\1/p')
variants=${VARIANTS:-avx2 ${best:-vnni}}
threads=${THREADS:-1 2}
rounds=${ROUNDS:-9}
shape=${SHAPE:-1560x14040x4x128}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export OMP_WAIT_POLICY=passive

# One run: NAME VARIANT THREADS words...; rows "name|reference<TAB>ratio (median unit)".
measure() {
    local name=$1 variant=$2 n=$3
    shift 3
    KVREEL_CPU=$variant OMP_NUM_THREADS=$n "$kvreel" bench "$@" --json \
        >"$dir/$name.$variant.$n" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
    sed -n 's/^bench: //p' "$dir/log" >"$dir/machine.$name.$variant.$n"
}

# The fields of one JSON document of rows, a line each: name, reference, ratio, median, unit, error.
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
        printf '* %s, %s threads: %s\n' "$v" "$t" "$(cat "$dir/machine.$name.$v.$t")"
        files+=("$v.$t")
    done; done
    printf '\n| row | reference |'
    for f in "${files[@]}"; do printf ' %s |' "${f/./, } thread(s)"; done
    printf ' error |\n|---|---|'
    for f in "${files[@]}"; do printf -- '---:|'; done
    printf -- '---:|\n'
    for f in "${files[@]}"; do
        fields "$dir/$name.$f" >"$dir/$name.$f.tsv"
        tsv+=("$dir/$name.$f.tsv")
    done
    awk -F'\t' -v n="${#files[@]}" '
        FNR == 1 { file++ }
        {
            key = $1
            sub(/\.(portable|avx2|avx512|avxvnni|vnni|neon)\.t/, ".t", key)
            if (!(key in seen)) { order[++rows] = key; seen[key] = 1; ref[key] = $2 }
            cell[key, file] = $3 == "null" ? "-" : sprintf("%.2f (%.3g %s)", $3, $4, $5)
            if ($6 != "null" && $6 != "") error[key] = sprintf("%.1e", $6)
        }
        END {
            for (i = 1; i <= rows; i++) {
                line = "| `" order[i] "` | " ref[order[i]] " |"
                for (f = 1; f <= n; f++) line = line " " cell[order[i], f] " |"
                print line " " error[order[i]] " |"
            }
        }' "${tsv[@]}"
}

cat <<'TEXT'
# What the CPU's kernels measure

Made by `tools/cpu-figures.sh`, not by hand. A cell is the ratio to the reference of its row, median
over rounds that take turns, more is faster; in brackets the median itself. `attention.int8` rows
are against this program's own F32 attention over the same tokens in BF16, `error` is against a
softmax in double over what the cache decodes. [cpu.md](cpu.md) says what the variants are.
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
threads=2 table codec "Codecs"
