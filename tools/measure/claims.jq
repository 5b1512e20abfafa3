# claims.jq - formats the rows of `kvreel claims --json` as the sections of docs/claims.md, with the id of each
# claim in backquotes once. $fixed[0] has the verdicts at a fixed number of prompts (results/claims-fixed-n.json).

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

def short: if . == "cannot be told here" then "open" else . end;
def decided: .verdict != "cannot be told here";
def arithmetic: .why // "" | startswith("arithmetic");
def paper: .source | split(", ")[0];
def statement: .says | sub(" has a higher SSIM than "; " > ") | sub(" has a lower SSIM than "; " < ") | cell;
# f of each claim, below a row that names the paper.
def papers(f): group_by(paper)[] | row(["**\(.[0] | paper)**"]), (.[] | f);
def ids: map(id) | join(", ");
def futile: .verdict == "futile";
# `why` of a ratio of runtimes on one GPU is "ratio of runtimes on one GPU: CARD, REMARK". One sentence for each card.
def card_times: map(select(.why // "" | startswith("ratio of runtimes on one GPU: ")) |
        . + (.why | capture("GPU: (?<card>[^,]*), (?<remark>.*)$"))) | group_by(.card)[] |
    "Ratios of times were measured on \(.[0].card): " + (group_by(.remark) | map("\(ids) (\(.[0].remark))") | join("; ")) + ".";
# `why` is "needs THINGS; REMARK; settled by: COMMAND", with or without the remark.
def command: .why | capture("settled by: (?<c>.*)$").c;
def needs: .why | capture("^needs (?<n>.*?); ").n;
# Most commands that measure on a lent card differ in one variable, its value in double quotes.
def card: "tools/device-check.sh --pack card.tar.xz && CONFIG=configs/cost-card.yaml PARTS=rollouts LIMIT_S=240 RUN_ARGS=", " tools/device-check.sh --run card.tar.xz out/card";
def on_card: command | startswith([card][0]) and endswith([card][1]);
def card_args: command | ltrimstr([card][0]) | rtrimstr([card][1]);
def machine(command): group_by(command)[] | row([(map(needs) | unique | join(", or ")), "`\(.[0] | command | cell)`", ids]);

(map(select(arithmetic)) | if length > 0 then
    "", "## Decided by arithmetic", "",
    "These are compression ratios of Wan 1.3B's cache at 165 frames; a range means that the encoded size depends on the data.", "",
    columns(["claim", "printed", "computed"]),
    (.[] | row([id, (.says | sub(" compresses the cache"; "") | cell), figure]))
    else empty end),
(map(select(decided and (arithmetic or futile | not))) | if length > 0 then
    "", "## Decided by measurement", "", (card_times | ., ""),
    "Claims of `study33` compare the study's versions (`NAME@study`), except `lm-*`. "
    + "Claims `se-*` use the study's StoryEval prompts; claims `lm-*` use a language model. A > B means that A's SSIM is higher.", "",
    (("holds", "does not hold", "equal") as $verdict | map(select(.verdict == $verdict)) | if length > 0 then
        "## \($verdict[:1] | ascii_upcase)\($verdict[1:])", "", columns(["claim", "statement", "difference", "n"]),
        papers(row([id, statement, figure, (.n | number)])), "" else empty end)
    else empty end),
(map(select(futile)) | if length > 0 then
    "", "## Futile", "",
    "These claims need more prompts than `kvreel settle --most` allows; numbers estimate each claim's needed prompts.", "",
    columns(["paper", "claims"]),
    (group_by(paper)[] | row([(.[0] | paper), (map(id + (if .n_needed then " \(.n_needed | round)" else "" end)) | join(", "))]))
    else empty end),
(map(select(.where_else // "" | contains("DISAGREES"))) | if length > 0 then
    "", "### Contrary verdicts in another setting", "",
    columns(["claim", "verdict", "setting: verdict (prompts)"]), (.[] | row([id, .verdict, (.where_else | cell)]))
    else empty end),
(map(. as $now | $fixed[0][] | select(.id == $now.id and .verdict != $now.verdict and $now.n) |
    {was: (.verdict | short), now: ($now.verdict | short), id: .id}) | map(select(.was != "open")) | if length > 0 then
    "", "### Verdicts that differ from those at a fixed number of prompts", "",
    "Each line begins with the verdict at a fixed number of prompts (`results/claims-fixed-n.json`).", "",
    (group_by([.was, .now])[] | "* \(.[0].was), now \(.[0].now): \(ids)")
    else empty end),
(map(select((decided | not) and .shown_by != null)) | if length > 0 then
    "", "## Open", "",
    "N of M: N prompts are measured, and a verdict needs M, if known.", "",
    columns(["paper", "claims"]),
    (group_by(paper)[] | row([(.[0] | paper), (map("\(id) \(.n // 0)" + (if .n_needed then " of \(.n_needed | round)" else "" end)) | join(", "))]))
    else empty end),
(map(select((decided | not) and .shown_by == null)) | if length > 0 then
    "", "## Needs a GPU, weights or recordings", "",
    "`kvreel claims` prints a command that tests each claim.", "",
    columns(["needs", "claims"]), (map(select(on_card | not)) | group_by(needs)[] | row([(.[0] | needs), ids])),
    (map(select(on_card)) | if length > 0 then
        "", "To test claims on one GPU, run this command with a row's `ARGS`:", "", "```",
        ([card] | "\(.[0])ARGS\\\n   \(.[1])"), "```", "",
        columns(["needs", "`ARGS`", "claims"]), machine(card_args) else empty end)
    else empty end)
