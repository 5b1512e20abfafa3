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

# The test sets PSNR so that KIVI_INT2 beats RTN_INT2 on every prompt, and QUAROT_KV_INT4 beats RTN_INT4 on every
# second prompt.
score() { # METHOD EXPRESSION: SQL that sets the method's PSNR; i is the prompt's number
    echo "UPDATE metric SET value = (SELECT $2 FROM (SELECT key, dense_rank() OVER (ORDER BY prompt_id) AS i FROM cell
        WHERE method = '$1') WHERE key = metric.cell) WHERE name = 'psnr' AND cell IN (SELECT key FROM cell WHERE method = '$1')"
}
changed a.db "$(score RTN_INT2 '20.0 + i'); $(score KIVI_INT2 '21.0 + 1.1 * i'); $(score RTN_INT4 '30.0 + i');
    $(score QUAROT_KV_INT4 '30.0 + i + iif(i % 2, 0.5, -0.5)')"
exits 0 "report --board writes a board" report --board one a.db
prints "report --board prints the path of index.html" '^one/index.html$'
cp one/board.json "$out"
json "the board has one ranking, for one machine and model" '.places | length == 1 and .[0].model == "nano"'
ranks() { jq -c --arg p "$1" '[.places[] | select(.machine | test($p)) | .classes[].rows[] | [.method, .rank, .tied]]' one/board.json; }
check "KIVI_INT2 leads its class, two methods tie, BF16 has no rank: $(ranks .)" test "$(ranks .)" = \
    '[["KIVI_INT2",1,false],["RTN_INT2",2,false],["QUAROT_KV_INT4",1,true],["RTN_INT4",1,true],["BF16",null,false]]'
json "each ranked mean lies inside its interval" '[.places[].classes[].rows[] | select(.rank) | .lo < .mean and .mean < .hi and .prompts == 7] | all'
# shellcheck disable=SC2016 # $h is jq's
json "the board has the SHA-256 of the database" --arg h "$(sha256sum a.db | cut -c 1-64)" '.sources[0].sha256 == $h and ([.places[].classes[].rows[].databases == [$h]] | all)'
json "each row has the commit of its cells" '[.places[].classes[].rows[].commits[0] | test("^[0-9a-f]{40}|^unknown")] | all'
check "the page marks a tied rank with =" grep -q '<td class="n">1 =</td><td>QUAROT_KV_INT4' one/index.html
check "the page does not mark an untied rank" grep -q '<td class="n">1</td><td>KIVI_INT2' one/index.html
command=$(jq -r '.places[0].classes[].rows[] | select(.method == "KIVI_INT2").rerun' one/board.json)
check "the command of a row reruns its cells: $command" bash -c "cd one && ${command/kvreel/\"$kvreel\"} -q && \
    sqlite3 -readonly rerun.db \"SELECT count(*) FROM cell WHERE method = 'KIVI_INT2' AND outcome = 'OK'\" | grep -qx 7"
exits 0 "report --board --rank-by ssim" report --board two a.db --rank-by ssim
check "the board names ssim as its metric" jq -e '.rule.metric == "ssim"' two/board.json
exits 2 "an unknown ranking metric is refused" report --board two a.db --rank-by beauty
says "the error names the ranking metric" "'beauty' is not a metric to rank by"
exits 2 "report refuses a database argument without --board" report a.db
says "the error names --board" 'only --board DIR accepts files'

# Each combination of machine and model has its own ranking. A cell that occurs in several input files counts once.
cp a.db b.db
changed b.db "UPDATE session SET cpu_model = 'Another CPU', driver = 'a card 1.0'"
cp a.db c.db
changed c.db "UPDATE cell SET model_sha256 = '$(printf 'c%.0s' {1..64})'"
exits 0 "a board of four input files, two of them equal" report --board one a.db b.db c.db a.db
says "a cell in several input files counts once" '35 cells are in several files and count once; the values of 0 of these cells differ'
cp one/board.json "$out"
json "the board has three rankings" '.places | length == 3'
json "the rankings cover two machines and two models" '[.places[] | .machine, .model_sha256] | unique | length == 4'
check "the second machine has the same ranks as the first" test "$(ranks 'Another CPU, 2 CPUs, a card|Another CPU')" = "$(jq -c '[.places[0].classes[].rows[] | [.method, .rank, .tied]]' one/board.json)"

# Six prompts with a PSNR of 1 dB and one with 100 dB: the interval of the mean would begin below 0 dB.
cp a.db wide.db
changed wide.db "$(score KIVI_INT2 'iif(i = 1, 100.0, 1.0)')"
exits 0 "report --board with one outlying prompt" report --board five wide.db
of_kivi=$(jq -c '.places[].classes[].rows[] | select(.method == "KIVI_INT2") | [.lo, .hi]' five/board.json)
exits 0 "report --table intervals with the same prompt" report --db wide.db --table intervals --format json
check "the board and the table have the same interval, in the range of PSNR: $of_kivi" test "$of_kivi" = \
    "$(jq -c '.[] | select(.method == "KIVI_INT2") | [.psnr_lo, .psnr_hi]' "$out")"
check "the interval begins at 0 dB" jq -e '.[0] == 0' <<<"$of_kivi"
check "the head of the page's column has the unit in parentheses" grep -q '>psnr (dB)</th>' five/index.html

export TMPDIR=$work/tmp && mkdir tmp
# --- packages -----------------------------------------------------------------------------------

exits 0 "submit-result writes a package" submit-result --db a.db -o a.kvresult --json
json "submit-result prints the numbers of cells and sessions" '.cells >= 35 and .sessions == 1 and .sweep == "s"'
check "tar unpacks the package" tar xf a.kvresult -C "$(mkdir -p x && echo x)"
check "the hashes in the manifest are right" bash -c "cd x && jq -r '.files[] | .sha256 + \"  \" + .name' manifest.json | sha256sum --check --quiet"
check "the package contains the config of the sweep" cmp x/configs/*.yaml s.yaml
exits 0 "submit-result packs the same database again" submit-result --db a.db -o again.kvresult
check "both packages are equal, byte for byte" cmp a.kvresult again.kvresult
exits 0 "a board of a package and a database" report --board one a.kvresult b.db
check "the board marks the package as verified" grep -q 'a.kvresult, a package, verified' one/index.html

# With two sweeps in one database, submit-result packs only the selected one.
sed 's/frames: 3/frames: 6/; s/prompts: 7/prompts: 1/; s/, RTN_INT4.*/, RTN_INT4]/' s.yaml >t.yaml
exits 0 "a second sweep writes to the same database" run t.yaml --db a.db -o out -q
exits 2 "submit-result without --sweep is refused if there are two sweeps" submit-result --db a.db -o b.kvresult
says "the error lists both sweeps" '2 sweeps are in the database; choose one with --sweep: (s|t) .*(s|t) '
exits 2 "submit-result refuses an unknown sweep" submit-result --db a.db -o b.kvresult --sweep u
says "the error for an unknown sweep lists the sweeps" "no sweep 'u'; the database has"
exits 0 "submit-result --sweep t" submit-result --db a.db -o t.kvresult --sweep t --json
json "the package has only the cells of sweep t" '.cells < 10'
exits 0 "submit-result --sweep s" submit-result --db a.db -o s.kvresult --sweep s --json
json "the package has the cells of sweep s" '.cells >= 35'
rm -rf x && mkdir x && tar xf t.kvresult -C x
exits 0 "fsck accepts the packed database" fsck x/results.db
check "the packed database has no cell of sweep s" test "$(sql x/results.db "SELECT group_concat(DISTINCT frames) || ' ' || (SELECT count(*) FROM sweep) FROM cell")" = "6 1"

# A package may contain identifiers of any length: the hash in the manifest covers all bytes of every key.
cp c.db long.db
changed long.db "UPDATE session SET id = printf('%.5000c', 'i');
    $(printf "UPDATE %s SET session = (SELECT id FROM session);" cell attempt about drift)"
check "a session id has 5000 bytes" test "$(sql long.db 'SELECT length(id) FROM session')" = 5000
exits 0 "submit-result packs a database with a session id of 5000 bytes" submit-result --db long.db -o long.kvresult
exits 0 "report --board reads this package" report --board four long.kvresult
mkdir z && tar xf long.kvresult -C z
check "the hash in the manifest covers the whole session id" test "$(jq -r .checksums.sha256 z/manifest.json)" = \
    "$(sql z/results.db "SELECT what || ' ' || key || ' ' || sha256 FROM seal ORDER BY what, key" | sha256sum | cut -c 1-64)"

# report --board refuses a package that was modified or truncated.
refused() { # NAME PATTERN
    exits 2 "$1" report --board three bad.kvresult
    says "$1: the error names the cause" "$2"
}
repack() { (cd x && tar --format=ustar -cf ../bad.kvresult manifest.json results.db environment.json configs/*); }
cp t.kvresult bad.kvresult
printf 'X' | dd of=bad.kvresult bs=1 seek=20000 conv=notrunc status=none
refused "a changed byte in the database of a package" "member 'results.db' of the package has sha256 .* manifest.json has .*: the member was modified"
head -c 30000 t.kvresult >bad.kvresult
refused "a truncated package" "the package ends [0-9]* bytes before the end of member 'results.db'"
sed 's/"cells": [0-9]*/"cells": 99/' x/manifest.json >m && cp x/manifest.json m0 && cp m x/manifest.json && repack
refused "a changed cell count in the manifest" 'the checksums of results.db differ from those in manifest.json'
cp m0 x/manifest.json
sqlite3 x/results.db "UPDATE metric SET value = 99 WHERE name = 'psnr'"
jq --arg h "$(sha256sum x/results.db | cut -c 1-64)" --argjson n "$(stat -c %s x/results.db)" \
    '(.files[] | select(.name == "results.db")) |= (.sha256 = $h | .bytes = $n)' m0 >x/manifest.json && repack
refused "a changed metric with a matching hash in the manifest" 'checksum'
cp t.kvresult bad.kvresult && (mkdir -p y && echo more >y/more && cd y && tar --format=ustar -rf ../bad.kvresult more)
refused "an unlisted member in a package" 'members that its manifest does not list'
# A header of the older tar format (v7) has no magic "ustar".
(head -c -1024 t.kvresult && cd y && mv more MORE && tar --format=v7 --numeric-owner -cf - MORE) >bad.kvresult
refused "an unlisted member in the older tar format" 'members that its manifest does not list'
(cat t.kvresult && printf X) >bad.kvresult
refused "a byte after the end of the archive" 'members that its manifest does not list'
head -c -512 t.kvresult >bad.kvresult
refused "a package without the last block" 'ends with 512 bytes of zeros, need at least 1024'
jq '.kind = "other"' m0 >x/manifest.json && repack
refused "a package of an unknown kind" "the key 'kind' must be kvreel-result"
check "refused packages write no board" test ! -e three/index.html
check "no temporary file is left" test -z "$(ls tmp)"

has_browser "the board in a browser" || exit 0
exits 0 "a board for the browser" report --board one s.kvresult b.db
timeout -k 5 90 "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --enable-logging=stderr --v=0 \
    --user-data-dir="$work/chromium" --dump-dom "file://$work/one/index.html" >dom 2>console
check "the browser shows the rows of the board" grep -q '<td>KIVI_INT2</td>' dom
check "the browser shows two rankings" test "$(grep -c '<h2>nano' dom)" = 2
check "the console of the browser has no message" bash -c "! grep -E 'CONSOLE|Refused|net::ERR' console"
