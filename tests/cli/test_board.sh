#!/usr/bin/env bash
# report --board ranks the methods of several databases, and submit-result packs a database for it.
. tests/cli/lib.sh || exit 1
cat >"$work/s.yaml" <<'YAML'
question: which rows keep the small model's video?
model: nano
suite: {suite: moviegen-nano, prompts: 7}
methods: [BF16, RTN_INT4, QUAROT_KV_INT4, KIVI_INT2, RTN_INT2]
frames: 3
baselines: none
YAML
shared_sweep "$work/s.yaml" "$work/a.db" "$work/out"
cd "$work" || exit 1

# Planted PSNR: KIVI_INT2 is better than RTN_INT2 on every prompt. QUAROT_KV_INT4 is better than RTN_INT4 on every
# second prompt.
score() { # METHOD EXPRESSION: SQL that sets the method's PSNR; i is the prompt's number
    echo "UPDATE metric SET value = (SELECT $2 FROM (SELECT key, dense_rank() OVER (ORDER BY prompt_id) AS i FROM cell
        WHERE method = '$1') WHERE key = metric.cell) WHERE name = 'psnr' AND cell IN (SELECT key FROM cell WHERE method = '$1')"
}
changed a.db "$(score RTN_INT2 '20.0 + i'); $(score KIVI_INT2 '21.0 + 1.1 * i'); $(score RTN_INT4 '30.0 + i');
    $(score QUAROT_KV_INT4 '30.0 + i + iif(i % 2, 0.5, -0.5)')"
exits 0 "a board" report --board one a.db
prints "says where it is" '^one/index.html$'
cp one/board.json "$out"
json "of one place" '.places | length == 1 and .[0].model == "nano"'
ranks() { jq -c --arg p "$1" '[.places[] | select(.machine | test($p)) | .classes[].rows[] | [.method, .rank, .tied]]' one/board.json; }
check "one beyond doubt, one tie, the reference without a rank: $(ranks .)" test "$(ranks .)" = \
    '[["KIVI_INT2",1,false],["RTN_INT2",2,false],["QUAROT_KV_INT4",1,true],["RTN_INT4",1,true],["BF16",null,false]]'
json "with intervals around the means" '[.places[].classes[].rows[] | select(.rank) | .lo < .mean and .mean < .hi and .prompts == 7] | all'
# shellcheck disable=SC2016 # $h is jq's
json "the database's hash" --arg h "$(sha256sum a.db | cut -c 1-64)" '.sources[0].sha256 == $h and ([.places[].classes[].rows[].databases == [$h]] | all)'
json "and the commit" '[.places[].classes[].rows[].commits[0] | test("^[0-9a-f]{40}|^unknown")] | all'
check "a tie is shown as one" grep -q '<td class="n">1 =</td><td>QUAROT_KV_INT4' one/index.html
check "a rank alone is not" grep -q '<td class="n">1</td><td>KIVI_INT2' one/index.html
command=$(jq -r '.places[0].classes[].rows[] | select(.method == "KIVI_INT2").rerun' one/board.json)
check "the command of a row runs its cells: $command" bash -c "cd one && ${command/kvreel/\"$kvreel\"} -q && \
    sqlite3 -readonly rerun.db \"SELECT count(*) FROM cell WHERE method = 'KIVI_INT2' AND outcome = 'OK'\" | grep -qx 7"
exits 0 "by another metric" report --board two a.db --rank-by ssim
check "says so" jq -e '.rule.metric == "ssim"' two/board.json
exits 2 "by none" report --board two a.db --rank-by beauty
says "is refused" "'beauty' is not a metric to rank by"
exits 2 "files without a board" report a.db
says "are refused" 'only --board DIR accepts files'

# Other machines and other models get a ranking of their own. The same cells in a second file count once.
cp a.db b.db
changed b.db "UPDATE session SET cpu_model = 'Another CPU', driver = 'a card 1.0'"
cp a.db c.db
changed c.db "UPDATE cell SET model_sha256 = '$(printf 'c%.0s' {1..64})'"
exits 0 "four files" report --board one a.db b.db c.db a.db
says "cells of two files count once" '35 cells are in several files and count once; the values of 0 of these cells differ'
cp one/board.json "$out"
json "three places" '.places | length == 3'
json "none with cells of two machines" '[.places[] | .machine, .model_sha256] | unique | length == 4'
check "each has its ranks" test "$(ranks 'Another CPU, 2 CPUs, a card|Another CPU')" = "$(jq -c '[.places[0].classes[].rows[] | [.method, .rank, .tied]]' one/board.json)"

export TMPDIR=$work/tmp && mkdir tmp
# --- packages -----------------------------------------------------------------------------------

exits 0 "a package" submit-result --db a.db -o a.kvresult --json
json "says what is in it" '.cells >= 35 and .sessions == 1 and .sweep == "s"'
check "tar reads it" tar xf a.kvresult -C "$(mkdir -p x && echo x)"
check "its manifest has the hashes" bash -c "cd x && jq -r '.files[] | .sha256 + \"  \" + .name' manifest.json | sha256sum --check --quiet"
check "and the config" cmp x/configs/*.yaml s.yaml
exits 0 "the same again" submit-result --db a.db -o again.kvresult
check "gives the same bytes" cmp a.kvresult again.kvresult
exits 0 "a board of packages" report --board one a.kvresult b.db
check "calls them verified" grep -q 'a.kvresult, a package, verified' one/index.html

# With two sweeps in one database, submit-result packs only the selected one.
sed 's/frames: 3/frames: 6/; s/prompts: 7/prompts: 1/; s/, RTN_INT4.*/, RTN_INT4]/' s.yaml >t.yaml
exits 0 "a second sweep" run t.yaml --db a.db -o out -q
exits 2 "no sweep is named" submit-result --db a.db -o b.kvresult
says "both are listed" '2 sweeps are in the database; choose one with --sweep: (s|t) .*(s|t) '
exits 2 "another is named" submit-result --db a.db -o b.kvresult --sweep u
says "as well" "no sweep 'u'; the database has"
exits 0 "one is named" submit-result --db a.db -o t.kvresult --sweep t --json
json "and packed alone" '.cells < 10'
exits 0 "the other" submit-result --db a.db -o s.kvresult --sweep s --json
json "alone as well" '.cells >= 35'
rm -rf x && mkdir x && tar xf t.kvresult -C x
exits 0 "its database is whole" fsck x/results.db
check "without the other's cells" test "$(sql x/results.db "SELECT group_concat(DISTINCT frames) || ' ' || (SELECT count(*) FROM sweep) FROM cell")" = "6 1"

# Every change of a package is detected.
refused() { # NAME PATTERN
    exits 2 "$1" report --board three bad.kvresult
    says "$1: says why" "$2"
}
repack() { (cd x && tar --format=ustar -cf ../bad.kvresult manifest.json results.db environment.json configs/*); }
cp t.kvresult bad.kvresult
printf 'X' | dd of=bad.kvresult bs=1 seek=20000 conv=notrunc status=none
refused "a byte of the database" "member 'results.db' of the package has sha256 .* manifest.json has .*: the member was modified"
head -c 30000 t.kvresult >bad.kvresult
refused "half of it" "the package ends [0-9]* bytes before the end of member 'results.db'"
sed 's/"cells": [0-9]*/"cells": 99/' x/manifest.json >m && cp x/manifest.json m0 && cp m x/manifest.json && repack
refused "another count" 'the checksums of results.db differ from those in manifest.json'
cp m0 x/manifest.json
sqlite3 x/results.db "UPDATE metric SET value = 99 WHERE name = 'psnr'"
jq --arg h "$(sha256sum x/results.db | cut -c 1-64)" --argjson n "$(stat -c %s x/results.db)" \
    '(.files[] | select(.name == "results.db")) |= (.sha256 = $h | .bytes = $n)' m0 >x/manifest.json && repack
refused "a number, and the manifest with it" 'checksum'
cp t.kvresult bad.kvresult && (mkdir -p y && echo more >y/more && cd y && tar --format=ustar -rf ../bad.kvresult more)
refused "a member more" 'members that its manifest does not list'
jq '.kind = "other"' m0 >x/manifest.json && repack
refused "another kind" "the key 'kind' must be kvreel-result"
check "nothing is written" test ! -e three/index.html
check "nothing is left in the temporary folder" test -z "$(ls tmp)"

has_browser "the board in a browser" || exit 0
exits 0 "a board to look at" report --board one s.kvresult b.db
timeout -k 5 90 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --enable-logging=stderr --v=0 \
    --user-data-dir="$work/chromium" --dump-dom "file://$work/one/index.html" >dom 2>console
check "it opens" grep -q '<td>KIVI_INT2</td>' dom
check "two places" test "$(grep -c '<h2>nano' dom)" = 2
check "without a word in the console" bash -c "! grep -E 'CONSOLE|Refused|net::ERR' console"
