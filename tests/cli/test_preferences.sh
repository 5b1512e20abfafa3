#!/usr/bin/env bash
# Preferences from files and the environment: their precedence and origin, what is refused, and that they do not
# change results.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
export HOME=$work/home XDG_CONFIG_HOME=$work/xdg KVREEL_ETC=$work/etc
mkdir -p home/.config/kvreel xdg/kvreel etc
dump=(run tiny.yaml --dump-config)
# from KEY VALUE ORIGIN: checks a line of --dump-config. It prints keys that are not part of a sweep as comments.
from() { exits 0 "$1 from $3" "${dump[@]}" && prints "it is $2" "^(# )?$1: \"?$2\"? +# $3\$"; }

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
dump+=(--set timeout_s=16)
from timeout_s 16 --set
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
    says "says where" "$3"
}
refused "an unknown key" 'out: o\njosb: 3\n' "kvreel\.yaml:2:1: .*josb.*jobs"
refused "what is part of a result" 'threads: 2\n' "kvreel\.yaml:1:1: .*threads"
refused "too many jobs" 'jobs: 2000\n' "kvreel\.yaml:1:7: .*1024"
refused "no number" 'timeout_s: soon\n' "kvreel\.yaml:1:12: "
refused "no flag" 'quiet: perhaps\n' "kvreel\.yaml:1:8: "
refused "no path" 'db: [a, b]\n' "kvreel\.yaml:1:5: "
refused "no YAML" 'db: "a\n' "kvreel\.yaml:[0-9]+:[0-9]+: "
printf 'jobs: 2\ntimeout_s: 5\n' >kvreel.yaml
echo '[a]' >list.yaml
exits 2 "a sweep that is none" run list.yaml --dump-config
says "is blamed itself" 'list\.yaml:1:1: '
: >kvreel.yaml
exits 0 "an empty file says nothing" "${dump[@]}"
rm kvreel.yaml
KVREEL_JOBS=many exits 2 "a variable that is no number" "${dump[@]}"
says "is named" 'KVREEL_JOBS: .*many'
KVREEL_OUT='' exits 0 "an empty variable says nothing" "${dump[@]}"
prints "and the default stands" '^out: out +# default$'

# Preferences take effect and are not part of a result.
rm -r etc home xdg
one=(--filter 'prompt=red & method=BF16')
exits 0 "a run without settings" run tiny.yaml "${one[@]}" --db plain.db --out o
check "shows progress" test -s "$err"
mkdir etc
printf 'db: set.db\nout: set\njobs: 1\nquiet: true\ntimeout_s: 500\n' >etc/config.yaml
exits 0 "a run with settings" run tiny.yaml "${one[@]}"
check "its database is there" test -s set.db
check "its frames, too" test -d set/frames
check "it is quiet" test ! -s "$err"
check "one cell at a time" test "$(sql set.db 'SELECT jobs FROM session')" -eq 1
results="SELECT c.key, c.spec, a.sha256 FROM cell c JOIN artifact a ON a.cell = c.key AND a.kind = 'frames'"
check "the same cell, the same frames" test "$(sql plain.db "$results")" = "$(sql set.db "$results")"
KVREEL_DB=plain.db exits 0 "the variable beats the file" run tiny.yaml "${one[@]}" --json
json "so that cell is done" '.done_before == 1 and .ok == 0 and .db == "plain.db"'
