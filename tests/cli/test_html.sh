#!/usr/bin/env bash
# The report's HTML page: it is written from a sweep and, if there is a browser, opened in it.
# alone: the checks of the page's video player compare its time with the clock.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

common_config "$work/page.yaml"
shared_sweep "$work/page.yaml" "$work/page.db" "$work/out"
# The bundled model refuses prompts that contain HTML, but other models and merged databases may contain them.
changed "$work/page.db" "UPDATE cell SET prompt_id = 'red', prompt = 'a </script><script>window.owned = 1</script>' ||
    ' <b class=evil>disc</b> & a \"quoted\" one' WHERE prompt_id =
    (SELECT min(prompt_id) FROM cell)"
exits 0 "report -o writes the page" report --db "$work/page.db" --media "$work/out" -o "$work/rep"
prints "report prints the path of the page" 'rep/index.html$'
check "the folder of the page has 18 videos" test "$(find "$work/rep/assets" -name '*.mp4' | wc -l)" -eq 18
exits 0 "report -o writes the page again" report --db "$work/page.db" --media "$work/out" -o "$work/rep2"
check "both pages are equal, byte for byte" cmp "$work/rep/index.html" "$work/rep2/index.html"
exits 0 "report --single-file" report --db "$work/page.db" --media "$work/out" -o "$work/one" --single-file
check "the single file contains the videos" grep -q 'data:video/mp4;base64' "$work/one/index.html"
check "the single file has no folder of assets" test ! -e "$work/one/assets"
exits 0 "report --single-file --cap 0.5" report --db "$work/page.db" --media "$work/out" -o "$work/small" \
    --single-file --cap 0.5
check "the single file stays under its cap" test "$(stat -c %s "$work/small/index.html")" -le 500000
says "the message says what was omitted" 'omitted'
check "the page refers to no other host" bash -c "! grep -oE '(https?:)?//[a-z0-9.-]+\.[a-z]{2,}' '$work/rep/index.html' | grep -v www.w3.org"
check "a prompt with </script> does not end a script" test "$(grep -o '</script' "$work/rep/index.html" | wc -l)" -eq 3
check "the data of the page name the missing baselines" bash -c "tr -d '\n' <'$work/rep/index.html' | grep -q '\"beside\":{\"c\":\[\"missing\"\],\"r\":\[\[\"INT8 (INT8_PTH), FP8 (FP8_PTH), BF16 over a shorter window'"
# The page has the same published rows as `kvreel reproduce`. If kvreel finds no published tables, the page says so.
exits 0 "reproduce prints the published figures as CSV" reproduce study33 --db "$work/page.db" -f csv
csv_exact=$(grep -c ',exact,' "$out")
page_exact=$(grep -o '"study33".*"verdicts":\[\["exact",[0-9]*' "$work/rep/index.html" | grep -o '[0-9]*$')
check "the page has as many exact rows: $csv_exact" test "$csv_exact" -gt 0 -a "$csv_exact" = "$page_exact"
# A database may come from someone else, so the page contains only the measured videos and no other file.
cp "$work/page.db" "$work/theirs.db"
cp -r "$work/out" "$work/theirs"
echo secret >"$work/secret"
secret=$(sha256sum "$work/secret" | cut -d ' ' -f 1)
ln -s ../../secret "$work/theirs/videos/link.mp4"
mapfile -t cells < <(sql "$work/page.db" "SELECT cell FROM artifact JOIN cell ON key = cell WHERE kind = 'video' AND jitter = 0 ORDER BY cell LIMIT 4")
unsealed "$work/theirs.db" "PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET sql = replace(sql, 'CHECK(substr(path, 1, 1) <> ''/'')', '') WHERE name = 'artifact'"
sqlite3 "$work/theirs.db" "
    UPDATE artifact SET path = '$work/secret', sha256 = '$secret' WHERE kind = 'video' AND cell = '${cells[0]}';
    UPDATE artifact SET path = '../secret', sha256 = '$secret' WHERE kind = 'video' AND cell = '${cells[1]}';
    UPDATE artifact SET path = 'videos/link.mp4', sha256 = '$secret' WHERE kind = 'video' AND cell = '${cells[2]}'"
echo >>"$work/theirs/$(sql "$work/page.db" "SELECT path FROM artifact WHERE kind = 'video' AND cell = '${cells[3]}'")"
for form in '' --single-file; do
    exits 0 "the page of a modified database $form" report --db "$work/theirs.db" --media "$work/theirs" -o "$work/their$form" $form --cap 50
    says "the page omits videos that are not those of the sweep $form" '18 cells, 14 videos'
    check "the page contains no other file $form" bash -c "! grep -rqE '$(echo secret | base64)|^secret$' '$work/their$form'"
done

mkdir -p "$work/elsewhere"
cp "$kvreel" "$work/elsewhere/kvreel"
check "report writes a page without published tables" bash -c "cd '$work/elsewhere' && env -u KVREEL_DATA ./kvreel report --db '$work/page.db' --media '$work/out' -o '$work/bare' >/dev/null 2>&1"
check "the page says that the published tables are missing" grep -q '"missing":"' "$work/bare/index.html"
exits 2 "report refuses a database without cells" report --db "$work/none.db" -o "$work/rep3"
exits 0 "report writes a table to a file" report --db "$work/page.db" --table summary --format csv -o "$work/t.csv"
check "the file has the header of the table" grep -q '^method,' "$work/t.csv"

has_browser "the page in a browser" || exit 0
open_page() { # FILE SIZE: prints the page's DOM after it has loaded; console messages are in $err
    timeout -k 5 90 "$browser" --headless --no-sandbox --disable-gpu --autoplay-policy=no-user-gesture-required \
        --user-data-dir="$work/profile" --window-size="$2" --enable-logging=stderr --timeout=20000 \
        --dump-dom "file://$1" >"$out" 2>"$err"
}
open_page "$work/rep/index.html" 1400,900
check "the browser opens the page from file://" grep -q 'data-ready="1"' "$out"
check "the page lists the missing baselines" grep -q '<dt>Missing baselines</dt><dd>INT8 (INT8_PTH), FP8 (FP8_PTH)' "$out"
check "the console of the browser has no message" bash -c "! grep CONSOLE '$err'"

# The checks are an additional script in the page. The test removes the page's content security policy, which would
# refuse this script. The browser runs until the checks end.
run_checks() { # FILE SIZE NAME
    local pid
    : >"$err" # so that a message of the previous run does not count
    "$browser" --headless --no-sandbox --disable-gpu --autoplay-policy=no-user-gesture-required \
        --user-data-dir="$work/profile-$3" --window-size="$2" --enable-logging=stderr \
        --remote-debugging-port=0 "file://$1" >/dev/null 2>"$err" &
    pid=$!
    for _ in $(seq 300); do
        grep -q '"check: done"' "$err" && break
        sleep 0.2
    done
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}
for kind in rep one; do
    size=1400,900
    [ $kind = one ] && size=420,900
    sed 's/<meta http-equiv="Content-Security-Policy"[^>]*>//' "$work/$kind/index.html" >"$work/$kind/checks.html"
    { echo '<script>'; cat "$root/tests/cli/report_checks.js"; echo '</script>'; } >>"$work/$kind/checks.html"
    run_checks "$work/$kind/checks.html" "$size" "$kind"
    check "the checks of the page finish ($kind)" grep -q '"check: done"' "$err"
    while IFS= read -r line; do
        case $line in
        "ok - "*) ok "$kind: ${line#ok - }" ;;
        "FAIL - "*) fail "$kind: ${line#FAIL - }" ;;
        esac
    done < <(sed -n 's/.*CONSOLE[^"]*"check: \(.*\)", source: .*/\1/p' "$err")
    check "the console has no other message ($kind)" bash -c "! grep CONSOLE '$err' | grep -v '\"check: '"
done
