#!/usr/bin/env bash
# Preferences from files and the environment: the test checks their precedence, their origin in --dump-config, and
# errors. Preferences do not change results.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
export HOME=$work/home XDG_CONFIG_HOME=$work/xdg KVREEL_ETC=$work/etc
mkdir -p home/.config/kvreel xdg/kvreel etc
dump=(run tiny.yaml --dump-config)
# from KEY VALUE ORIGIN: checks a line of --dump-config, which prints keys that a sweep does not set as comments.
from() { exits 0 "$1 from $3" "${dump[@]}" && prints "$1 is $2" "^(# )?$1: \"?$2\"? +# $3\$"; }

from db kvreel.db default
from out out default
from timeout_s 600 default
from memory_mib 0 default
from jobs 0 default
from quiet false default

printf 'timeout_s: 11\njobs: 3\nquiet: true\ndb: etc.db\n' >etc/config.yaml
from timeout_s 11 "$work/etc/config.yaml:1"
from jobs 3 "$work/etc/config.yaml:2"
from quiet true "$work/etc/config.yaml:3"
printf 'timeout_s: 12\njobs: 4\n' >xdg/kvreel/config.yaml
from timeout_s 12 "$work/xdg/kvreel/config.yaml:1"
from jobs 4 "$work/xdg/kvreel/config.yaml:2"
from db etc.db "$work/etc/config.yaml:4"
printf '\ntimeout_s: 13\nmemory_mib: 4000\n' >kvreel.yaml
from timeout_s 13 kvreel.yaml:2
from memory_mib 4000 kvreel.yaml:3
from jobs 4 "$work/xdg/kvreel/config.yaml:2"
echo 'timeout_s: 14' >>tiny.yaml
from timeout_s 14 "tiny.yaml:[0-9]+"
export KVREEL_TIMEOUT_S=15 KVREEL_JOBS=5 KVREEL_DB=env.db
from timeout_s 15 KVREEL_TIMEOUT_S
from jobs 5 KVREEL_JOBS
from db env.db KVREEL_DB
dump+=(--set timeout_s=16m)
from timeout_s 16m --set
dump+=(--timeout 17 --jobs 6 --db o.db --progress)
from timeout_s 17 --timeout
from jobs 6 --jobs
from db o.db --db
from quiet false --progress
unset KVREEL_TIMEOUT_S KVREEL_JOBS KVREEL_DB
dump=(run tiny.yaml --dump-config)
unset XDG_CONFIG_HOME
echo 'jobs: 7' >home/.config/kvreel/config.yaml
from jobs 7 "$work/home/.config/kvreel/config.yaml:1"
XDG_CONFIG_HOME=xdg from jobs 7 "$work/home/.config/kvreel/config.yaml:1"
HOME=/dev/null from jobs 3 "$work/etc/config.yaml:2"

# refused NAME TEXT PATTERN: checks that kvreel.yaml with this text is refused with a message that matches.
refused() {
    printf '%b' "$2" >kvreel.yaml
    exits 2 "$1" "${dump[@]}"
    says "$1: the error has file and line" "$3"
}
refused "an unknown key" 'out: o\njosb: 3\n' "kvreel\.yaml:2:1: .*josb.*jobs"
refused "a setting that affects results" 'threads: 2\n' "kvreel\.yaml:1:1: .*threads"
refused "too many jobs" 'jobs: 2000\n' "kvreel\.yaml:1:7: .*1024"
refused "a time that is no number" 'timeout_s: soon\n' "kvreel\.yaml:1:12: "
refused "a flag that is no boolean" 'quiet: perhaps\n' "kvreel\.yaml:1:8: "
refused "a path that is a list" 'db: [a, b]\n' "kvreel\.yaml:1:5: "
refused "a file that is no YAML" 'db: "a\n' "kvreel\.yaml:[0-9]+:[0-9]+: "
printf 'jobs: 2\ntimeout_s: 5\n' >kvreel.yaml
echo '[a]' >list.yaml
exits 2 "a config that is a list is refused" run list.yaml --dump-config
says "the error names the config" 'list\.yaml:1:1: '
: >kvreel.yaml
exits 0 "an empty kvreel.yaml is accepted" "${dump[@]}"
rm kvreel.yaml
KVREEL_JOBS=many exits 2 "a variable that is no number" "${dump[@]}"
says "the error names KVREEL_JOBS" 'KVREEL_JOBS: .*many'
KVREEL_OUT='' exits 0 "an empty KVREEL_OUT is accepted" "${dump[@]}"
prints "an empty KVREEL_OUT keeps the default" '^out: out +# default$'

# Preferences take effect and are not part of a result.
rm -r etc home xdg
one=(--filter 'prompt=red & method=BF16')
exits 0 "a run without preferences" run tiny.yaml "${one[@]}" --db plain.db --out o
check "a run without preferences shows progress" test -s "$err"
mkdir etc
printf 'db: set.db\nout: set\njobs: 1\nquiet: true\ntimeout_s: 500\n' >etc/config.yaml
exits 0 "a run with preferences" run tiny.yaml "${one[@]}"
check "the preferred database is written" test -s set.db
check "the preferred output folder has frames" test -d set/frames
check "quiet: true shows no progress" test ! -s "$err"
check "jobs: 1 runs one cell at a time" test "$(sql set.db 'SELECT jobs FROM session')" -eq 1
results="SELECT c.key, c.spec, a.sha256 FROM cell c JOIN artifact a ON a.cell = c.key AND a.kind = 'frames'"
check "preferences change neither key nor frames" test "$(sql plain.db "$results")" = "$(sql set.db "$results")"
KVREEL_DB=plain.db exits 0 "KVREEL_DB overrides the file" run tiny.yaml "${one[@]}" --json
json "the cell in the database of KVREEL_DB is done" '.done_before == 1 and .ok == 0 and .db == "plain.db"'
