#!/usr/bin/env bash
# settle adds prompts in rounds until claims have a verdict. The test also covers a time budget that ends settle, and
# a second run that continues.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

cat >suite.yaml <<'END'
name: small
model: nano
frames: 6
seed: 5
prompts:
END
i=0
for colour in red green blue yellow purple cyan orange white; do
    for move in "stays still" bounces orbits; do
        i=$((i + 1))
        ground=white
        [ $colour != white ] || ground=red
        echo "  - {id: p$i, text: a large $colour disc $move over a plain $ground background}" >>suite.yaml
    done
done
echo "  - {id: odd, text: a large red disc spins over a plain blue background, held_out: spins}" >>suite.yaml
cat >mine.yaml <<'END'
sources: {me: my own}
methods:
  COARSE: {method: RTN_INT2, options: {group: 64}}
settle: {model: nano, suites: [suite.yaml], frames: 6, window: 0, control: 0, metrics: [psnr]}
claims:
  - {id: sure, source: me, at: here, says: four bits beat two, more: {metric: psnr, of: RTN_INT4, than: COARSE}}
  - {id: wrong, source: me, at: here, says: two bits beat four, more: {metric: psnr, of: COARSE, than: RTN_INT4}}
  - {id: same, source: me, at: here, says: a method beats itself, more: {metric: psnr, of: RTN_INT4, than: RTN_INT4}}
  - {id: thin, source: me, at: here, says: the margin is the difference, more: {metric: ssim, of: RTN_INT8, than: BF16, margin: 0.000001}}
  - {id: far, source: me, at: here, says: needs a GPU, command: kvreel run x, why: needs a GPU}
END
exits 2 "settle refuses an unknown claim" settle sur --ledger mine.yaml --db t.db
says "the error suggests the claim sure" "no claim 'sur'; did you mean 'sure'"
exits 2 "settle refuses an invalid budget" settle sure --ledger mine.yaml --db t.db --budget soon
exits 75 "a budget of 1 s ends settle with status 75" settle sure --ledger mine.yaml --db t.db --out o --budget 1s --json -j 2
exits 0 "the same command continues" settle sure --ledger mine.yaml --db t.db --out o --json -j 2
json "the claim holds with at least 12 prompts" \
    'length == 1 and .[0].id == "sure" and .[0].verdict == "holds" and .[0].n >= 12 and .[0].lo > .[0].margin'
says "the message has the round and its prompts" 'settle: round 1: .*12 prompts per suite'
exits 0 "settle again" settle sure --ledger mine.yaml --db t.db --out o -j 2
says "settle measures nothing again" '0 rounds of measurement, 0 cells measured'
exits 0 "settle all" settle all --ledger mine.yaml --db t.db --out o --json -j 2 --most 20
json "the opposite claim does not hold" '.[] | select(.id == "wrong") | .verdict == "does not hold" and .hi < -.margin'
json "a method compared with itself is equal" '.[] | select(.id == "same") | .verdict == "equal" and .figure == 0'
json "a claim at its margin has at least 12 prompts" \
    '.[] | select(.id == "thin") | .n >= 12 and (.verdict | IN("holds", "does not hold", "equal", "futile", "cannot be told here"))'
json "a claim that needs a GPU stays open" '.[] | select(.id == "far") | .verdict == "cannot be told here"'
exits 0 "settle --elsewhere 1" settle all --ledger mine.yaml --db t.db --out o -j 2 --most 20 --elsewhere 1
says "a round measures other versions" 'settle: round 1: other versions of the methods: [1-9][0-9]* methods, 1 prompts per suite'
says "a round uses teacher forcing" 'settle: round 2: rollouts with teacher forcing: [1-9][0-9]* methods, 1 prompts per suite'
exits 0 "a query for the held-out prompt" query --db t.db \
    "SELECT count(*) AS n FROM cell WHERE prompt_id = 'odd'" --json
json "the held-out prompt was not run" '.[0].n == 0'
exits 0 "report --table claims" report --db t.db --table claims -f json
exits 0 "report --table variance" report --db t.db --table variance -f json
exits 0 "the forest plot" plot claims --ledger mine.yaml --db t.db -o figures
prints "plot claims writes one figure" "claims: 1 figure"
check "the data of the figure have the verdict" grep -q "	sure	holds	" figures/claims.tsv

# A ledger's suites are found relative to its folder, although the generated sweep is in another folder.
mkdir "a ledger's"
cp suite.yaml "a ledger's"
cp mine.yaml "a ledger's"
rm suite.yaml
exits 75 "a ledger in a folder of its own" settle sure --ledger "a ledger's/mine.yaml" --db own.db --out o2 --budget 1s -j 2
exits 0 "the generated sweep is valid" run o2/settle.yaml --db own.db --out o2 --dry-run
bad_ledger() { # NAME SED PATTERN
    sed "$2" "a ledger's/mine.yaml" >"a ledger's/bad.yaml"
    exits 2 "$1" settle sure --ledger "a ledger's/bad.yaml" --db own.db --out o2
    says "$1: the error has line and column" "bad.yaml:$3"
}
bad_ledger "an option that is a list" 's/group: 64/group: [64, 32]/' '3:[0-9]+: expected text, found a list'
bad_ledger "options that are a list" 's/options: {group: 64}/options: [64]/' '3:[0-9]+: options: need a map'
bad_ledger "a metric that is a map" 's/metrics: \[psnr\]/metrics: [{command: x}]/' '4:[0-9]+: expected text, found a map'
bad_ledger "a setting that is a list" 's/control: 0/control: 0, set: {chunk: [1, 2]}/' '4:[0-9]+: expected text, found a list'
bad_ledger "a suite that is not there" 's/suite.yaml/sweet.yaml/' '4:[0-9]+: suite not found at sweet.yaml'
sed -i 's/^settle:.*//' mine.yaml
exits 2 "settle refuses a ledger without section settle" settle all --ledger mine.yaml --db t.db
says "the error names the section" "no section 'settle'"
