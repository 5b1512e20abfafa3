# shellcheck shell=bash
# test_killed.sh - a run that is killed at any moment leaves no process and no incomplete file with a final name.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
tiny_config c.yaml 15

exits 0 "the undisturbed sweep" run c.yaml --db clean.db -o clean -q
(cd clean && find frames videos -type f -exec sha256sum {} + | sort -k 2) >want

# alive SESSION: prints the session's running processes, without zombies.
alive() { ps -o pid=,stat= -s "$1" | awk '$2 !~ /^Z/ { print $1 }'; }
# spent SESSION: prints the processor time of each process, in ms. It does not advance while a worker waits for a
# busy processor.
spent() {
    local p
    for p in $(alive "$1"); do
        sed 's/.*) //' "/proc/$p/stat" 2>/dev/null | awk -v p="$p" -v hz="$(getconf CLK_TCK)" '{ print p, ($12 + $13) * 1000 / hz }'
    done
}

names() { [ ! -d k ] || (cd k && find . -path './[fv]*' -type f ! -name '*.part*' ! -name '*.tmp-*' | sort); }

kills=20 late=0 most=0 after=0 partial=0 during=0
for i in $(seq $kills); do
    [ $((i % 5)) -ne 1 ] || rm -rf k.db* k
    setsid "$kvreel" run c.yaml --db k.db -o k --jobs 2 -q >run.out 2>&1 &
    pid=$!
    # Kills the run after a given processor time of a worker or, in every fifth run, of the main process. Processor
    # time makes the moment independent of the machine's load.
    while [ -n "$(alive $pid)" ]; do
        spent $pid | awk -v at=$((i * 43 % 160)) -v pid=$pid -v own=$((i % 5 == 0)) '($1 == pid) == own && $2 >= at { n++ } END { exit !n }' && break
        sleep 0.005
    done
    [ -z "$(alive $pid | grep -vx $pid)" ] || during=$((during + 1))
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    have=$(names)
    declare -A began=()
    for turn in $(seq 6000); do # waits at least 60 s for processes to end
        now=$(spent $pid)
        [ -n "$now" ] || break
        [ "$turn" -lt 6000 ] || late=$((late + 1))
        while read -r p ms; do
            : "${began[$p]:=$ms}"
            [ $((ms - began[$p])) -le $most ] || most=$((ms - began[$p]))
        done <<<"$now"
        sleep 0.01
    done
    [ "$have" = "$(names)" ] || after=$((after + 1))
    # Each file with a final name equals, byte for byte, the same file of the undisturbed sweep.
    [ ! -d k ] || (cd k && find . -path './[fv]*' -type f ! -name '*.part*' ! -name '*.tmp-*' -exec sha256sum {} + | sed 's|\./||' | sort -k 2) >have
    [ ! -s have ] || [ -z "$(comm -23 <(sort have) <(sort want))" ] || partial=$((partial + 1))
done
check "of $kills kills, at least ten hit running workers ($during)" test "$during" -ge 10
check "workers end after their parent was killed" test "$late" -eq 0
check "workers use at most 100 ms of processor time after the kill ($most ms)" test "$most" -le 100
check "no file gets its final name after the kill" test "$after" -eq 0
check "no incomplete file has a final name" test "$partial" -eq 0
exits 0 "the same command resumes the killed sweep" run c.yaml --db k.db -o k -q
check "the resumed sweep has the files of the undisturbed sweep" bash -c "cd k && find frames videos -type f ! -name '*.part*' ! -name '*.tmp-*' -exec sha256sum {} + | sort -k 2 | diff - ../want"
