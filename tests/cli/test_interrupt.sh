#!/usr/bin/env bash
# Ctrl-C and kill -9 in the middle of a sweep: finished cells stay, the same command runs the rest, and no cell is
# measured twice.
. tests/cli/lib.sh || exit 1
tiny_config "$work/long.yaml" 9
sed -i 's/^frames/seed: [1, 2, 3]\nframes/' "$work/long.yaml"
cd "$work" || exit 1

measured() { sql "$1" "SELECT count(*) FROM cell WHERE outcome='OK'" 2>/dev/null || echo 0; }

# start DB: runs the sweep in the background, with the default action for SIGINT as in a terminal.
start() {
    env --default-signal=INT "$kvreel" run long.yaml --db "$1" --out "o-$1" --jobs 1 >run.out 2>run.err &
    pid=$!
    for _ in $(seq 600); do
        [ "$(measured "$1")" -ge 2 ] && return
        kill -0 $pid 2>/dev/null || return
        sleep 0.1
    done
}

# rows DB: the finished cells. Resuming the sweep must not change them.
rows() { sql "$1" "SELECT key, started, finished, attempt FROM cell WHERE outcome='OK' ORDER BY key"; }

resume() { # DB NAME
    local before after
    before=$(rows "$1")
    exits 0 "$2: the same command resumes" run long.yaml --db "$1" --out "o-$1" --jobs 1 --json
    json "$2: the plan is complete" '.cells == 18 and .failed == 0 and .ok + .skipped == 18'
    check "$2: only missing cells are measured" \
        test "$(jq .ok "$out")" -eq $((18 - $(printf '%s\n' "$before" | grep -c .)))
    check "$2: every cell is there once" \
        test "$(sql "$1" "SELECT count(*) || ' ' || count(DISTINCT key) FROM cell WHERE outcome='OK'")" = '18 18'
    after=$(rows "$1")
    check "$2: finished cells are unchanged" \
        bash -c 'test -z "$(comm -23 <(printf "%s\n" "$1") <(printf "%s\n" "$2"))"' _ "$before" "$after"
    check "$2: SQLite finds the database intact" test "$(sql "$1" 'PRAGMA integrity_check')" = ok
}

start int.db
kill -INT "$pid"
wait "$pid"
rc=$?
n=$(measured int.db)
if [ "$rc" -eq 0 ]; then
    fail "Ctrl-C: the sweep was over before the signal"
else
    check "Ctrl-C gives exit 75" test "$rc" -eq 75
    check "Ctrl-C ends the sweep early ($n of 18 cells)" bash -c "test $n -ge 2 && test $n -lt 18"
    resume int.db "after Ctrl-C"
fi

start kill.db
kill -KILL "$pid"
wait "$pid" 2>/dev/null
n=$(measured kill.db)
check "kill -9 keeps finished cells ($n of 18)" bash -c "test $n -ge 2 && test $n -lt 18"
resume kill.db "after kill -9"

# Planning a full-size model takes long, because it solves budgets. A signal ends it at once.
cat >budgets.yaml <<'YAML'
question: how long is a plan?
model: wan-1.3b-random
prompts: [{id: wan, text: a large red disc}]
frames: 84
window: 0
baselines: none
methods: [{method: ROLLING_WINDOW, options: {frames: [fit 1, fit 2, fit 3, fit 4, fit 5, fit 6, fit 7, fit 8, fit 9]}}]
YAML
"$kvreel" run budgets.yaml --dry-run >dry.out 2>dry.err &
pid=$!
sleep 0.7
kill -TERM $pid
start=$(date +%s)
wait $pid
rc=$?
check "SIGTERM during planning gives exit 75" test "$rc" -eq 75
check "planning ends at once ($(($(date +%s) - start)) s)" test $(($(date +%s) - start)) -le 5
check "the message says that planning was interrupted" grep -q 'interrupted' dry.err

# Before the first cell, a process encodes the prompts on the device. A signal ends it, both while it encodes and
# while it waits for a GPU that another process uses.
if "$kvreel" version | grep -q 'kernels *emulated'; then
    cat >encode.yaml <<YAML
question: how long is an encoder?
model: $root/tests/fixtures/wan_folder
prompts: [{id: p1, text: a small dog runs}]
methods: [BF16]
frames: 3
device: emulated
YAML
    printf '#!/bin/sh\nexec sleep 60\n' >slow.sh
    chmod +x slow.sh
    export KVREEL_EMULATED_DEVICES=1 KVREEL_LOCKS=$work
    stops() { # name
        "$kvreel" run encode.yaml --db encode.db --out encode -q 2>encode.err &
        pid=$!
        for _ in $(seq 300); do # the lock file exists as soon as the process looks for a GPU
            [ -f kvreel-emulated-0.lock ] && break
            sleep 0.1
        done
        sleep 1
        kill -TERM $pid
        start=$(date +%s)
        wait $pid
        rc=$?
        check "$1: SIGTERM gives exit 75" test "$rc" -eq 75
        check "$1: at once ($(($(date +%s) - start)) s)" test $(($(date +%s) - start)) -le 5
        check "$1: the state of the session is interrupted" \
            test "$(sql encode.db "SELECT DISTINCT value FROM about WHERE name = 'state'")" = interrupted
    }
    KVREEL_SELF=$work/slow.sh stops "an encoder at work"
    check "the encoder created the lock file" test -f kvreel-emulated-0.lock
    exec 9<kvreel-emulated-0.lock
    flock 9
    stops "an encoder that waits for its GPU"
    exec 9<&-
    check "no cell has started" test "$(measured encode.db)" = 0
    unset KVREEL_EMULATED_DEVICES KVREEL_LOCKS
fi
