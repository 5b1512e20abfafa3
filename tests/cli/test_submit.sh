#!/usr/bin/env bash
# submit prints a Slurm job script. A stub of sbatch runs the script's tasks. If a Slurm node is idle, the tasks also run
# there, and one of them is killed and requeued. The merged shards must give the results of a single run.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
sed -i 's/^frames/seed: [1, 2, 3]\nframes/' "$work/tiny.yaml"
cd "$work" || exit 1

exits 0 "submit prints a job script" submit slurm tiny.yaml --shards 3 --time 1:00 --mem 2G --at-once 2
cp "$out" array.sh
check "bash parses the job script" bash -n array.sh
prints "the job script requests an array of 3 tasks, 2 at once" '^#SBATCH --array=0-2%2$'
prints "the job script requests requeueing" '^#SBATCH --requeue$'
prints "the job script requests a signal 120 s before its time limit" '^#SBATCH --signal=B:USR1@120$'
prints "the job script has the given memory limit" '^#SBATCH --mem=2G$'
exits 2 "more shards than one array may have are refused" submit slurm tiny.yaml --shards 5000
exits 2 "an unknown scheduler is refused" submit pbs tiny.yaml
exits 2 "a missing config is refused" submit slurm none.yaml
exits 2 "a log folder with a space in its name is refused" submit slurm tiny.yaml --dir 'a b'

# The results of a database, without times and sessions.
content() {
    sql "$1" "SELECT c.key, c.outcome, c.nominal_bytes, a.sha256, group_concat(m.name || '=' ||
        coalesce(m.value, m.missing)) FROM cell c LEFT JOIN artifact a ON a.cell = c.key AND
        a.kind = 'frames' JOIN metric m ON m.cell = c.key GROUP BY c.key ORDER BY c.key"
}

exits 0 "the sweep runs without shards" run tiny.yaml --db one.db --out o -q
mkdir bin
cat >bin/sbatch <<'SH'
#!/bin/bash
# Stub of sbatch: runs the tasks of an array one after the other.
script=$(cat)
export SLURM_ARRAY_JOB_ID=7 KVREEL_OFFSET=${1##*KVREEL_OFFSET=}
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' <<<"$script")
for ((i = 0; i <= last; i++)); do
    SLURM_ARRAY_TASK_ID=$i bash -c "$script" >>"task-$i.log" 2>&1 || exit 1
done
echo "Submitted batch job 7"
SH
chmod +x bin/sbatch
PATH=$work/bin:$PATH exits 0 "the sbatch stub runs 3 shards as two arrays" \
    submit slurm tiny.yaml --shards 3 --max-array 2 --dir stub --send
exits 0 "merge of the stub's shards" merge stub -o stub.db --json
check "the stub's shards give the results of a single run" test "$(content one.db)" = "$(content stub.db)"
check "the merged database has 18 cells" test "$(sql stub.db 'SELECT count(*) FROM cell')" -eq 18

# --- a real Slurm -------------------------------------------------------------------------
slurm=$root/tools/test/slurm-one-node.sh
started=
# At the script's end: prints logs if a check failed, and stops Slurm's daemons if this script started them.
leave() {
    local rc=$?
    if [ -n "${job-}" ] && [ "$n_failed" -gt 0 ]; then
        "$slurm" logs | sed 's/^/  /'
        tail -n 15 real/task-*.log | sed 's/^/  /'
    fi
    [ -z "$started" ] || "$slurm" stop
    (exit "$rc")
    finish
}
trap leave EXIT
if [ -n "${KVREEL_SLURM_TEST-}${KVREEL_TEST_ALL-}" ] && command -v slurmctld >/dev/null && ! sinfo -h >/dev/null 2>&1; then
    started=1
    "$slurm" start
fi
if ! command -v sinfo >/dev/null || ! timeout 5 sinfo -h -o %t 2>/dev/null | grep -qx idle; then
    skip "a real Slurm" "no node of Slurm is idle"
    exit
fi
"$kvreel" submit slurm tiny.yaml --shards 3 --dir real --send >"$out" 2>"$err"
check "sbatch accepts the job" grep -q 'Submitted batch job' "$out"
job=$(sed -n 's/.*job \([0-9]*\).*/\1/p' "$out")
# Prints the number of the job's tasks that have not ended: 0 if Slurm no longer knows the job, "unknown" if its
# controller does not answer within 30 s.
left() {
    if timeout 30 squeue -h -j "$job" >queue 2>queue.err; then
        wc -l <queue
    elif grep -q 'Invalid job id' queue.err; then
        echo 0
    else
        echo unknown
    fi
}
# Waits until a task has stored a cell, kills the task and its worker with SIGKILL, and requeues the task. The requeued
# task must not measure the stored cells again.
for _ in $(seq 300); do
    victim=$(for f in real/shard-*.db; do
        [ -e "$f" ] && [ "$(sql "$f" 'SELECT count(*) FROM cell' 2>/dev/null || echo 0)" -ge 1 ] &&
            basename "$f" .db | tr -dc 0-9 && break
    done)
    [ -n "$victim" ] && break
    sleep 0.1
done
check "a task has measured a cell before it is killed" test -n "$victim"
scancel --signal=KILL --full "${job}_$victim" 2>/dev/null
sleep 1
before=$(sql "real/shard-$victim.db" "SELECT key, finished FROM cell WHERE outcome = 'OK' ORDER BY key")
# Slurm may have requeued the task already. A completed task cannot be requeued.
scontrol requeue "${job}_$victim" >"$out" 2>"$err"
rc=$?
if [ $rc -eq 0 ] || grep -q 'pending' "$err"; then
    ok "task $victim was killed and is queued again"
else
    skip "requeue of a killed task" "task $victim was through: $(head -c 100 "$err")"
fi
for _ in $(seq 300); do
    [ "$(left)" = 0 ] && break
    sleep 1
done
check "all tasks of the array have ended" test "$(left)" = 0
exits 0 "merge of Slurm's shards" merge real -o real.db --json
json "Slurm's shards do not contradict each other" '.conflicts == 0'
check "Slurm's shards give the results of a single run" test "$(content one.db)" = "$(content real.db)"
after=$(sql "real/shard-$victim.db" "SELECT key, finished FROM cell WHERE outcome = 'OK' ORDER BY key")
check "the requeued task did not measure finished cells again" \
    bash -c 'test -z "$(comm -23 <(printf "%s\n" "$1") <(printf "%s\n" "$2"))"' _ "$before" "$after"
echo "victim $victim had $(printf '%s\n' "$before" | grep -c .) cells; $(head -3 real/task-"$victim".log | tr '\n' '|')"
