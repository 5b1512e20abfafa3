#!/usr/bin/env bash
# The report's HTML page in a browser: its sections, the view that its URL describes, and the files that it saves.
# The command that it shows for a cell reruns this cell. The page shows a video only if it is the file that was
# measured.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

mkdir -p "$work/bin"
ln -s "$kvreel" "$work/bin/kvreel"
cd "$work" || exit 1
cat >page.yaml <<'YAML'
question: what does a page hold?
name: "page <b>&amp;</b>"
model: nano
prompts:
  - {id: red, text: a large red disc drifts right over a plain blue background}
  - {id: green, text: a large green square drifts left over a plain white background}
window: [3, 6]
kind: [bench, probe]
probe_prompts: 1
frames: 9
methods:
  - BF16
  - RTN_INT2
  - RTN_INT4
  - {method: RTN_INT4, options: {group: 32}}
baselines: none
control: 1
out: runs
YAML
# The number of frames comes from the command line, so the command that the page shows must contain it.
kvreel=$work/bin/kvreel
"$kvreel" run page.yaml --db page.db --set frames=6 --filter 'kind=bench' -q >"$out" 2>"$err" ||
    fail "the sweep runs: $(tail -n 3 "$err")"
"$kvreel" run page.yaml --db page.db --set frames=6 --filter 'kind=probe & name!=RTN_INT4' -q >"$out" 2>"$err" ||
    fail "the probing sweep runs: $(tail -n 3 "$err")"
"$kvreel" run page.yaml --db page.db --set frames=6 --filter 'kind=probe & method=RTN_INT4' -q >"$out" 2>"$err" ||
    fail "and the rest of it: $(tail -n 3 "$err")"
failed=$(sql page.db "SELECT key FROM cell WHERE method = 'RTN_INT4' AND run_kind = 'bench' AND window = 6 AND prompt_id = 'green'")
"$kvreel" query --db page.db --raw "SELECT config_text FROM session LIMIT 1" >text.yaml
check "query --raw prints a text unchanged" bash -c "diff <(cat page.yaml; echo) text.yaml"
exits 2 "query refuses --raw together with --csv" query --db page.db --raw --csv 'SELECT 1'
frames_of() { sql page.db "SELECT sha256 FROM artifact WHERE cell = '$1' AND kind = 'frames'"; }
mapfile -t bad < <(sql page.db "SELECT cell FROM artifact JOIN cell ON key = cell WHERE kind = 'video' AND method = 'RTN_INT2' AND run_kind = 'bench' ORDER BY cell LIMIT 3")
video_of() { sql page.db "SELECT path FROM artifact WHERE cell = '$1' AND kind = 'video'"; }
before=$(frames_of "$failed")
changed page.db "UPDATE cell SET log_tail = 'rtn cell log', time_codes = 'UNTIMED LOAD' WHERE method = 'RTN_INT2';
    UPDATE cell SET outcome = 'TIMEOUT', reason = 'ran too long', verdict = 'INVALID', verdict_codes = 'FAILED',
    log_tail = 'the last words' WHERE key = '$failed'"
# The page must not show these videos: a missing file, another size, and other content of the same size.
rm "runs/$(video_of "${bad[0]}")"
echo x >>"runs/$(video_of "${bad[1]}")"
printf '\001' | dd of="runs/$(video_of "${bad[2]}")" bs=1 seek=2000 conv=notrunc 2>/dev/null
exits 0 "the page is written" report --db page.db -o rep
says "the message counts missing videos" '1 videos omitted: not found'
says "the message counts modified videos" "2 videos omitted: their files changed after the measurement"
check "the page says that a file is missing" grep -q "\"${bad[0]}\":\"the sweep.s output folder does not contain this video file" rep/index.html
check "the page says that the size of a file changed" grep -q "\"${bad[1]}\":\"not shown: the file has [0-9]* bytes, but had [0-9]* when it was measured" rep/index.html
check "the page says that the hash of a file changed" grep -q "\"${bad[2]}\":\"not shown: the file.s sha256 is [0-9a-f]*\.\.\., but was" rep/index.html
for k in "${bad[@]}"; do check "the page does not contain the video of $k" test ! -e "rep/assets/$k.mp4"; done
check "the title is the name of the sweep, escaped" grep -q '<title>page &lt;b>&amp;amp;&lt;/b> &middot; kvreel report</title>' rep/index.html
exits 0 "report --title" report --db page.db -o own --title 'Mine & yours'
cp page.db unnamed.db
changed unnamed.db "UPDATE sweep SET name = 'from-the-file'; UPDATE session SET config_text = replace(config_text, 'name:', 'question:')"
exits 0 "the page of a sweep whose config has no name" report --db unnamed.db -o unnamed
check "its title is the sweep's name, not the database's" grep -q '<title>from-the-file &middot; kvreel report</title>' unnamed/index.html
check "the page has the title in --title" grep -q '<title>Mine &amp; yours' own/index.html

has_browser "the page in a browser" || exit 0
sed 's/<meta http-equiv="Content-Security-Policy"[^>]*>//' rep/index.html >rep/checks.html
{ echo '<script>'; cat "$root/tests/cli/page_checks.js"; echo '</script>'; } >>rep/checks.html
: >"$err"
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size=1400,900 \
    --enable-logging=stderr --remote-debugging-port=0 "file://$work/rep/checks.html" >/dev/null 2>"$err" &
pid=$!
for _ in $(seq 450); do
    grep -q '"check: done"' "$err" && break
    sleep 0.2
done
kill "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
check "the checks of the page finish" grep -q '"check: done"' "$err"
while IFS= read -r line; do
    case $line in
    "ok - "*) ok "${line#ok - }" ;;
    "FAIL - "*) fail "${line#FAIL - }" ;;
    esac
done < <(sed -n 's/.*CONSOLE[^"]*"check: \(.*\)", source: .*/\1/p' "$err")
check "the console has no other message" bash -c "! grep CONSOLE '$err' | grep -vE '\"(check|again): '"

# A newly opened page shows the view that its address describes, under the page's content security policy.
open_page() { # URL
    timeout -k 5 90 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size=1400,900 \
        --enable-logging=stderr --timeout=20000 --dump-dom "$1" >"$out" 2>"$err2"
}
err2=$work/err2
open_page "file://$work/rep/index.html#methods?f-text=INT2&pick=RTN_INT2&sort=-ssim&o-y=psnr&c-cell=$failed"
check "the URL selects a method" grep -q '<tr class="picked" data-method="RTN_INT2"' "$out"
check "the URL sorts a column" grep -q 'aria-sort="descending"><button type="button" data-sort="ssim"' "$out"
check "the URL filters methods" bash -c "! grep -q '<tr class=\"\" data-method=\"RTN_INT4\"' '$out' && grep -q '2 of 4 methods' '$out'"
check "the URL selects a metric" grep -q 'aria-label="PSNR over ' "$out"
check "the URL opens a cell" grep -q "<dd>$failed</dd>" "$out"
check "the console has no message" bash -c "! grep CONSOLE '$err2'"

# The commands that the page shows run unchanged.
mapfile -t commands < <(sed -n 's/.*CONSOLE[^"]*"again: \([A-Za-z0-9+/=]*\)", source: .*/\1/p' "$err")
check "the page shows the commands of three cells" test "${#commands[@]}" -eq 6
PATH=$work/bin:$PATH
i=0
for c in "${commands[@]}"; do
    echo "$c" | base64 -d >"again$i.sh"
    i=$((i + 1))
done
# attempts counts the runs of one cell, others those of all cells except this one and its baseline.
key_of() { grep -o 'key=[0-9a-f]*' "$1" | cut -c 5-; }
attempts() { sql "$1" "SELECT count(*) FROM attempt WHERE cell = '$2'"; }
others() { sql "$1" "SELECT count(*) FROM attempt WHERE cell NOT IN (SELECT key FROM cell WHERE key = '$2' UNION SELECT baseline FROM cell WHERE key = '$2')"; }
again() { # DB SCRIPT
    local key n m
    key=$(key_of "$2")
    n=$(attempts "$1" "$key")
    m=$(others "$1" "$key")
    check "the command runs: $(tail -n 1 "$2")" bash -e "$2"
    check "$2: its cell is measured once more" test "$(attempts "$1" "$key")" -eq $((n + 1))
    check "$2: no other cell is measured, except its baseline" test "$(others "$1" "$key")" -eq "$m"
}
for i in 0 1 2 3 4 5; do again page.db "again$i.sh"; done
check "the failed cell is OK after its command" test "$(sql page.db "SELECT outcome FROM cell WHERE key = '$failed'")" = OK
check "the cell has the same frames as before" test "$(frames_of "$failed")" = "$before"
# If the config's path does not exist in the working directory, the page shows a command that reads the config from
# the database.
mkdir other
cd other || exit 1
"$kvreel" run "$work/page.yaml" --db o.db --out out --set frames=3 --filter 'window=3 & prompt=red & kind=bench' -q >"$out" 2>"$err" ||
    fail "a sweep of a config from elsewhere runs: $(tail -n 3 "$err")"
exits 0 "the page of a sweep whose config is elsewhere" report --db o.db -o rep
open_page "file://$work/other/rep/index.html#cell"
sed -n 's/.*<pre data-again="main">\(kvreel query.*\)/\1/p' "$out" | sed 's/&gt;/>/g; s/&amp;/\&/g; s/&quot;/"/g' >again.sh
sed -n '/<pre data-again="main">kvreel query/{n;s/<\/pre>.*//;p}' "$out" >>again.sh
check "the command of the cell reads the config from the database" grep -q config_text again.sh
again o.db again.sh
