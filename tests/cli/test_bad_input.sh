#!/usr/bin/env bash
# Invalid user input, and a full or read-only disk, cause an error message and an exit status.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
run=(run --db t.db --out o --jobs 1)

edit() { sed "$1" tiny.yaml >bad.yaml; }
exits 2 "a missing config is refused" run absent.yaml
says "the error names the missing config" 'absent.yaml'
edit 's/^frames:/framse:/'
exits 2 "an unknown key is refused" "${run[@]}" bad.yaml
says "the error has file, line, column and the nearest key" 'bad.yaml:7:1: .*framse.*frames'
edit 's/^frames:.*/frames: many/'
exits 2 "a value of the wrong type is refused" "${run[@]}" bad.yaml
says "the error has file, line, column and the value" 'bad.yaml:7:9: .*many'
edit 's/^frames:.*/frames: -3/'
exits 2 "a value out of range is refused" "${run[@]}" bad.yaml
says "the error of the value out of range has file and line" 'bad.yaml:7:9: '
edit 's/RTN_INT2/RTN_INT22/'
exits 2 "an unknown method is refused" "${run[@]}" bad.yaml
says "the error has file, line and the nearest method" 'bad.yaml:6:.*RTN_INT22.*RTN_INT2'
edit 's/disc/dics/'
exits 2 "an unknown word in a prompt is refused" "${run[@]}" bad.yaml
says "the error has the word, file and line" 'bad.yaml:4.*dics'
edit 's/^model:.*/model: nanno/'
exits 2 "an unknown model is refused" "${run[@]}" bad.yaml
says "the error suggests nano" 'nano'
edit 's/^methods: \[/methods: [[/'
exits 2 "a file that is no YAML is refused" "${run[@]}" bad.yaml
says "the error of the file that is no YAML has file and line" 'bad.yaml:[0-9]+:[0-9]+: '
check "refused configs write no database" test ! -e t.db

# Model weights.
model=$root/models/nano
copy_model() {
    rm -rf m
    cp -r "$model" m
    chmod -R u+w m
}
edit 's/^model:.*/model: .\/m/'
copy_model
rm m/dit.safetensors
exits 2 "a model without weights is refused" "${run[@]}" bad.yaml
says "the error names the missing weight file" 'dit.safetensors'
copy_model
head -c 100000 "$model/dit.safetensors" >m/dit.safetensors
exits 2 "truncated weights are refused" "${run[@]}" bad.yaml
says "the error names the truncated weight file" 'dit.safetensors'
copy_model
sed 's/"ffn_dim": 768/"ffn_dim": 760/' "$model/config.json" >m/config.json
exits 2 "weights of another shape are refused" "${run[@]}" bad.yaml
says "the error names the tensor and both shapes" 'ffn.*760'
exits 2 "generate refuses a model without weights" generate --model ./nowhere -p 'a large red disc' -o g

# Database files.
sqlite3 other.db 'CREATE TABLE t(x); PRAGMA user_version=3;'
exits 2 "run refuses a database of another program" run tiny.yaml --db other.db --out o
says "the error names the database of another program" 'other.db'
exits 2 "query refuses a database of another program" query --db other.db 'SELECT 1'
exits 0 "a valid sweep runs" "${run[@]}" tiny.yaml --filter 'method=BF16' --json
exits 5 "a filter that selects no cell exits with status 5" "${run[@]}" tiny.yaml --filter 'method=BF16 or method=RTN_INT4'
says "the error quotes the filter" "no cell of the sweep matches --filter 'method=BF16 or method=RTN_INT4'"
cp t.db newer.db
sqlite3 newer.db 'PRAGMA user_version=99;'
exits 2 "run refuses a database of a newer schema" run tiny.yaml --db newer.db --out o
says "the error has the database and its schema" 'newer.db.*99'
exits 2 "query refuses a database of a newer schema" query --db newer.db 'SELECT 1'
head -c 5000 t.db >cut.db
"$kvreel" run tiny.yaml --db cut.db --out o >"$out" 2>"$err"
check "run refuses a truncated database" test $? -ne 0
says "the error names the truncated database" 'cut.db'
echo 'not a database' >text.db
exits 2 "query refuses a file that is no database" query --db text.db 'SELECT 1'

# In a mount namespace of its own, a small tmpfs acts as a full disk, and a tmpfs that is remounted read-only acts as
# a read-only disk.
in_tmpfs() { # options, script
    local ns=(unshare -m)
    [ "$(id -u)" -eq 0 ] || ns=(unshare -Urm)
    mkdir -p small
    "${ns[@]}" bash -c "mount -t tmpfs -o $1 none small && $2"
}
if in_tmpfs size=64k true 2>/dev/null; then
    cp tiny.yaml full.yaml
    in_tmpfs size=64k "'$kvreel' run full.yaml --db small/t.db --out o2" >"$out" 2>"$err"
    check "a full disk gives exit 1" test $? -eq 1
    says "the error says that the disk is full" 'space|full'
    in_tmpfs size=1m "cp t.db small/t.db && dd if=/dev/zero of=small/fill bs=4k status=none 2>/dev/null;
        '$kvreel' run full.yaml --db small/t.db --out o3; rc=\$?; rm small/fill; cp small/t.db after.db; exit \$rc" \
        >"$out" 2>"$err"
    check "a disk that fills up during a sweep gives exit 1 or 3" bash -c "test $? -eq 1 || test $? -eq 3"
    check "earlier cells are still in the database" \
        test "$(sql after.db "SELECT count(*) FROM cell WHERE outcome='OK'")" -ge 2
    in_tmpfs size=1m "mount -o remount,ro small && '$kvreel' run full.yaml --db small/t.db --out o4" \
        >"$out" 2>"$err"
    check "a read-only directory gives exit 1" test $? -eq 1
    says "the error names the database in the read-only directory" 'small/t.db'
    in_tmpfs size=1m "mount -o remount,ro small && '$kvreel' generate -p 'a large red disc drifts right over a plain blue background' --frames 3 -o small/g" \
        >"$out" 2>"$err"
    check "generate into a read-only directory gives exit 1" test $? -eq 1
    says "the error names the output folder in the read-only directory" 'small/g'
else
    skip "a full disk, a read-only directory" "no mount namespace can be made here"
fi
