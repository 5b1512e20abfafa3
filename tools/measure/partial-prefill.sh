#!/usr/bin/env bash
# partial-prefill.sh - writes tables of a database's results between the markers of docs/partial-prefill.md.
#
#     build/kvreel run configs/partial-prefill.yaml
#     tools/measure/partial-prefill.sh KVREEL out/partial-prefill.db [FILE]   FILE: docs/partial-prefill.md
set -euo pipefail

kvreel=$1
db=$2
page=${3:-docs/partial-prefill.md}
tools=$(dirname "$0")

# at($n): formats a number with $n decimal places. jq has no function for this.
# shellcheck disable=SC2016 # $n is jq's
number='def at($n): . as $x | if $x == null then "-" else
    ((if $x < 0 then -$x else $x end) * pow(10; $n) | round | tostring
        | if length <= $n then "0" * ($n + 1 - length) + . else . end) as $d
    | (if $x < 0 and ($d | tonumber) > 0 then "-" else "" end) + $d[:-$n] + "." + $d[-$n:] end;
    def span($a; $b; $c): if $a == null then "-" else "\($a | at(3)) [\($b | at(3)), \($c | at(3))]" end;'

# One row per layout and claim, one column per chunk size.
"$kvreel" reproduce jensen-llm --db "$db" --format json | jq -r "$number"'
    def what: { d_nll: "INT2 worsens the likelihood", gain: "Taylor improves on INT2",
        mass_shift: "the quantized prefix gains attention",
        mass_shift_left: "Taylor reduces the attention gain" }[.quantity];
    map(select(what)) | map(. + { what: what, layout: (.method | sub("\\+.*"; "")) })
    | (map(.suite) | unique_by(ltrimstr("chunks of ") | tonumber)) as $suites
    | "| layout | claim | " + ($suites | join(" | ")) + " |",
      "|---|---|" + ($suites | map("---|") | join("")),
      (. as $all | reduce $all[] as $r ([]; if index([[$r.layout, $r.what]]) then . else . + [[$r.layout, $r.what]] end)
       | sort_by(.[0])[] | . as $key
       | "| \($key[0]) | \($key[1]) | " + ($suites | map(. as $suite | $all
           | map(select(.suite == $suite and .layout == $key[0] and .what == $key[1]))[0]
           | if . == null then "-"
             else "\(.verdict | sub("cannot be told here"; "open")): \(.measured | at(3))\(.basis | (capture("95 % interval: (?<ci>.*)") | .ci
                    | split(" .. ") | " [\(.[0] | tonumber | at(3)), \(.[1] | tonumber | at(3))]") // "")" end)
           | join(" | ")) + " |")' | "$tools/between.sh" "$page" claims

"$kvreel" report -t prefill --db "$db" --format json | jq -r "$number"'
    "| method | bits | above BF16 | change by correction |",
    "|---|---:|---:|---:|",
    (map(select(.chunk == 128 and .prefix_tokens == null and (.method | endswith("_PTH") or . == "BF16" | not)))[]
     | "| \(.method) | \(.bits | at(2)) | " + span(.d_nll; .d_nll_lo; .d_nll_hi) + " | "
         + (span(.gain; .gain_lo; .gain_hi) + (if .verdict then ", \(.verdict)" else "" end)) + " |")' |
    "$tools/between.sh" "$page" all-prefixes

# One row for each of four 2-bit methods, one column per prefix length.
"$kvreel" report -t prefill --db "$db" --format json | jq -r "$number"'
    map(select(.chunk == 128 and .prefix_tokens != null
        and (.method | test("^(ASYM2_G32|ASYM2_G32.taylor|KIVI_INT2|RTN_INT2)$")))) as $all
    | ($all | map(.prefix_tokens) | unique) as $prefixes
    | "| method | " + ($prefixes | map("\(.) tokens") | join(" | ")) + " |",
      "|---|" + ($prefixes | map("---:|") | join("")),
      ($all | map(.method) | unique[] as $method | "| \($method) | " + ($prefixes | map(. as $n | $all
          | map(select(.method == $method and .prefix_tokens == $n))[0]
          | span(.d_nll; .d_nll_lo; .d_nll_hi)) | join(" | ")) + " |")' | "$tools/between.sh" "$page" by-prefix
