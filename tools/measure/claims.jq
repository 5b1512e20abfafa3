# claims.jq - turns the rows of `kvreel claims --json` into the sections of docs/claims.md, with each claim's id in
# backquotes once. $fixed[0]: the verdicts that a fixed number of prompts gave (results/claims-fixed-n.json).

def cell: gsub("\\|"; "\\|");
def number:
    if . == null then ""
    elif fabs >= 100 then round | tostring
    elif fabs >= 1 then (. * 100 | round) / 100 | tostring
    else (. * 10000 | round) / 10000 | tostring end;
def figure:
    if .lo == null or .lo == .hi then .figure | number
    else "\(.figure | number) [\(.lo | number), \(.hi | number)]" end;
def id: "`\(.id)`";
def row($cells): "| " + ($cells | join(" | ")) + " |";
def columns($names): row($names), "|" + ($names | map("---|") | add);

# f of each claim, below a row that names the source and the place in it.
def placed(f): group_by(.source)[] | row(["**\(.[0].source)**"]), (.[] | f);

def short: if .verdict == "cannot be told here" then "open" else .verdict end;
def needed: if (.verdict == "futile" or .verdict == "cannot be told here") and .n_needed then " of \(.n_needed | round)" else "" end;
def decided: .verdict != "cannot be told here";
def arithmetic: .why // "" | startswith("arithmetic");
# `why` is "needs THINGS; REMARK; settled by: COMMAND", with or without the remark.
def command: .why | capture("settled by: (?<c>.*)$").c;
def needs: .why | capture("^needs (?<n>.*?); ").n;
def remark: .why | capture("^needs .*?; (?<r>.*); settled by: ") // null | if . then " (\(.r))" else "" end;

(map(select(arithmetic)) | if length > 0 then
    "", "## Decided by arithmetic", "",
    "Compression of Wan 1.3B's cache at 165 frames. A range belongs to a method whose bytes depend on the data.", "",
    columns(["claim", "statement", "computed"]),
    placed(row([id, (.says | cell), figure]))
    else empty end),
(map(select(decided and (arithmetic | not))) | if length > 0 then
    "", "## Decided by measurement", "",
    (map(.why // empty | select(startswith("a ratio of one card's times: ")) |
         sub("^a ratio of one card's times: "; "")) | unique |
        if length > 0 then "A row without `n` is a ratio of times on \(join(", or on ")).", "" else empty end),
    columns(["claim", "statement", "verdict", "difference", "margin", "n"]),
    placed(row([id, (.says | cell), .verdict, figure, (.margin | number), (.n | number)]))
    else empty end),
(map(select(.where_else // "" | contains("DISAGREES"))) | if length > 0 then
    "", "### Contrary verdicts in another setting", "",
    columns(["claim", "verdict", "elsewhere"]), (.[] | row([id, .verdict, (.where_else | cell)]))
    else empty end),
(map(. as $now | $fixed[0][] | select(.id == $now.id and .verdict != $now.verdict and $now.n) | {was: ., now: $now}) | if length > 0 then
    "", "### Changed since the test of a fixed number of prompts", "",
    "An interval of a fixed n compared with 0 gave the verdict before. Now the interval holds for any number of looks and is compared with the margin.", "",
    columns(["claim", "then", "now", "margin"]),
    (.[] | row([(.now | id), "\(.was.verdict): [\(.was.lo | number), \(.was.hi | number)], n \(.was.n)",
        "\(.now | short): [\(.now.lo | number), \(.now.hi | number)], n \(.now.n)" + (.now | needed), (.now.margin | number)]))
    else empty end),
(map(select((decided | not) and .shown_by != null)) | if length > 0 then
    "", "## Open", "",
    "Without a verdict so far, with the number of prompts. A number after \"of\" is about how many a verdict needs; others need 12 or more.",
    "`kvreel claims` prints the statements and the differences so far.", "",
    columns(["source", "claims"]),
    (group_by(.source)[] | row([.[0].source, (map("\(id) \(.n // 0)" + (if .n_needed then " of \(.n_needed | round)" else "" end)) | join(", "))]))
    else empty end),
(map(select((decided | not) and .shown_by == null)) |
    "", "## Needs a GPU, weights or recordings",
    (group_by(command) | sort_by(.[0].source)[] |
        "", "Needs \(map(needs) | unique | join(", or ")):", "", "```", (.[0] | command), "```", "",
        (group_by(.source)[] | "* \(.[0].source):", (.[] | "  * \(id): \(.says)\(remark)"))))
