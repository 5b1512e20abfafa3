# shellcheck shell=bash
# test_hostile.sh - unusual arguments, closed descriptors and signals do not damage a run.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
tiny_config c.yaml

deep=$(printf '(%.0s' $(seq 400))
stars=$(printf 'a*%.0s' $(seq 60))
exits 2 "a filter of 400 parentheses is refused" run c.yaml --dry-run --filter "method~$deep"
says "the error has the limit of nested parentheses" 'more than the limit of 50 nested parentheses'
check "a filter that takes hours of backtracking elsewhere is fast" \
    timeout 5 "$kvreel" run c.yaml --dry-run --filter "text~${stars}b\$"
exits 2 "a filter with counts in braces is refused" run c.yaml --dry-run --filter 'method~a{1000}'

check "a layer budget in /dev/zero is refused at once" bash -c \
    "! timeout 10 '$kvreel' run c.yaml --db z.db -o z --filter name=FLOWCACHE_PRUNE_INT4 -s 'methods=[BF16, {method: FLOWCACHE_PRUNE_INT4, options: {layer_budget: /dev/zero}}]' -q >z.log 2>&1"
check "the reason says that it is no regular file" bash -c "sqlite3 -readonly z.db 'SELECT reason FROM cell' | grep -q 'not a regular file' || grep -q 'not a regular file' z.log"

printf '1\nfr\xff\xfe\n' >bytes.txt
check "a layer budget that is no text fails its cell" bash -c \
    "! '$kvreel' run c.yaml --db y.db -o y --filter 'prompt=red & name~FLOWCACHE' -s 'methods=[BF16, {method: FLOWCACHE_PRUNE_INT4, options: {layer_budget: bytes.txt}}]' -q >y.log 2>&1"
check "the reason of the cell is readable text" test "$(sql y.db "SELECT count(*) FROM cell WHERE reason LIKE '%need one number per line, found ''fr%'")" = 1
exits 2 "an output folder whose name is not UTF-8 is refused" run c.yaml --db y.db -o $'y\xff' -q
says "the error says that the name must be UTF-8" 'the name must be UTF-8'

# A FIFO without a writer is refused at once. It neither blocks the command nor makes it ignore signals.
mkfifo nobody
for ask in 'run nobody --dry-run' 'query --db nobody SELECT' 'fsck nobody' 'merge nobody -o all.db'; do
    # shellcheck disable=SC2086
    timeout -k 1 10 "$kvreel" $ask >"$out" 2>"$err"
    check "a FIFO is refused: $ask" test $? -eq 2
    says "$ask: the error names the FIFO" nobody
done
timeout -k 1 10 "$kvreel" run <(cat c.yaml) --dry-run >"$out" 2>"$err"
check "a config is read from a FIFO with a writer" test $? -eq 0

exits 2 "a sweep of millions of cells is refused" run c.yaml --dry-run -s 'seed=1..1000' -s repeats=1000
says "the error has the limit and the planning time" 'cells, at most 1000000 are allowed, since planning alone takes about [0-9]+ s'

# If stderr is closed, the lock file could get descriptor 2. Messages must not be written to it.
"$kvreel" run c.yaml --db e.db -o e >/dev/null 2>&-
check "a sweep with closed stderr measures all cells" test "$(sql e.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" = 6
check "the lock file names only the process and the host" bash -c "[[ \$(cat e.db.lock) =~ ^process\ [0-9]+\ on\ [^\ ]+\$ ]]"

# A run with another seed into the same folder does not change the first run's files.
exits 0 "another seed in the same output folder" run c.yaml --db e.db -o e -q --filter prompt=red -s seed=4
sqlite3 -readonly -separator '  ' e.db 'SELECT sha256, path FROM artifact' >e/sums
check "each cell has its own files" test "$(cut -d ' ' -f 3- e/sums | sort | uniq -d)|$(grep -c videos/ e/sums)" = "|9"
check "each file has its recorded hash" bash -c "cd e && sha256sum --quiet -c sums"

# A limit on the file size (ulimit -f) is reported like a full disk, without a crash.
(ulimit -f 200; "$kvreel" run c.yaml --db f.db -o f -q >f.out 2>f.err; echo $? >f.rc)
check "a file size limit ends the run with a message" bash -c "[ \$(cat f.rc) -lt 100 ] && [ \$(cat f.rc) -gt 0 ] && grep -qi 'space\|too large' f.err"

# A FIFO with an incomplete config blocks kvreel while it reads the config, so that the test can inspect the process.
mkfifo slow
begin() { # COMMAND...: starts the command, sets pid, and waits until the command reads the config
    exec 4<>slow
    "$@" 4>&- &
    pid=$!
    for _ in $(seq 400); do
        for fd in "/proc/$pid/fd"/*; do [ "$(readlink "$fd")" != "$PWD/slow" ] || return 0; done
        sleep 0.05
    done
    fail "nobody reads the config"
}
go_on() {
    cat c.yaml >&4
    exec 4>&-
    wait "$pid"
}
without_stderr() { exec "$kvreel" run slow --db x.db -o x --dry-run >/dev/null 2>&-; }
begin without_stderr
check "kvreel opens /dev/null in place of closed stderr" test "$(readlink "/proc/$pid/fd/2")" = /dev/null
go_on

# A plug-in sends SIGTERM to kvreel twice while kvreel loads it, before the command begins. kvreel must exit with
# status 75 and a message.
stops=$(dirname "$kvreel")/tests/plugins/stops.so
if [ -e "$stops" ]; then
    env --default-signal=TERM "$kvreel" --plugin "$stops" run c.yaml --db t.db -o t >"$out" 2>"$err"
    check "SIGTERM twice before the command begins gives exit 75" test $? -eq 75
    says "the message says interrupted" interrupted
else
    skip "SIGTERM before the command begins" "no $stops: make cli-test builds it"
fi

# SIGTERM in the first 0.1 s of a run gives exit 75 and a message or, before kvreel handles signals, leaves no
# output.
n_heard=0
for ms in 0 0.005 0.02 0.05 0.1; do
    env --default-signal=TERM "$kvreel" run c.yaml --db "s$ms.db" -o s --jobs 1 >s.out 2>s.err &
    pid=$!
    for _ in 1 2 3 4; do sleep $ms; kill -TERM $pid 2>/dev/null; done
    wait $pid
    rc=$?
    if [ $rc -eq 75 ] && grep -q interrupted s.err; then
        ok "SIGTERM every $ms s from the start gives exit 75"
        n_heard=$((n_heard + 1))
    elif [ $rc -eq 143 ] && [ ! -e "s$ms.db" ] && [ ! -s s.out ] && [ ! -s s.err ]; then
        ok "SIGTERM every $ms s ends kvreel before it handles signals, without output"
    else
        fail "SIGTERM every $ms s: exit $rc"
    fi
done
check "at least one SIGTERM came after kvreel handles signals" test $n_heard -ge 1
