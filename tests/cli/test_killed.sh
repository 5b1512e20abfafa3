# shellcheck shell=bash
# test_killed.sh - a runner that is killed at any instant leaves no process and no half file behind.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
tiny_config c.yaml 9

exits 0 "the sweep, in peace" run c.yaml --db clean.db -o clean -q
(cd clean && find frames videos -type f -exec sha256sum {} + | sort -k 2) >want

# alive SESSION: the processes of a session that still run; a zombie does not.
alive() { ps -o pid=,stat= -s "$1" | awk '$2 !~ /^Z/ { print $1 }'; }

kills=20 late=0 slowest=0 partial=0 during=0
for i in $(seq $kills); do
    [ $((i % 5)) -ne 1 ] || rm -rf k.db* k
    setsid "$kvreel" run c.yaml --db k.db -o k --jobs 2 -q >run.out 2>&1 &
    pid=$!
    sleep "$(printf '0.%03d' $((i * 43 % 900 + 20)))"
    [ -z "$(alive $pid | grep -vx $pid)" ] || during=$((during + 1))
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    start=$(date +%s%N)
    while [ -n "$(alive $pid)" ] && [ $(($(date +%s%N) - start)) -lt 5000000000 ]; do sleep 0.01; done
    ms=$((($(date +%s%N) - start) / 1000000))
    [ $ms -le $slowest ] || slowest=$ms
    [ $ms -lt 1000 ] || late=$((late + 1))
    # What has its final name is what the sweep in peace has under it, to the byte.
    [ ! -d k ] || (cd k && find . -path './[fv]*' -type f ! -name '*.part*' ! -name '*.tmp-*' -exec sha256sum {} + | sed 's|\./||' | sort -k 2) >have
    [ ! -s have ] || [ -z "$(comm -23 <(sort have) <(sort want))" ] || partial=$((partial + 1))
done
check "of $kills kills some met workers ($during)" test "$during" -ge 5
check "workers end with their parent (the slowest after $slowest ms)" test "$late" -eq 0
check "no half file has a final name" test "$partial" -eq 0
exits 0 "the same command goes on" run c.yaml --db k.db -o k -q
check "to the same end" bash -c "cd k && find frames videos -type f ! -name '*.part*' ! -name '*.tmp-*' -exec sha256sum {} + | sort -k 2 | diff - ../want"
