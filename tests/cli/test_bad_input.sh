#!/usr/bin/env bash
# Wrong user input, and a full or read-only disk, give a message and an exit status.
. tests/cli/lib.sh || exit 1
tiny_config "$work/tiny.yaml"
cd "$work" || exit 1
run=(run --db t.db --out o --jobs 1)

edit() { sed "$1" tiny.yaml >bad.yaml; }
exits 2 "no such config" run absent.yaml
says "names the file" 'absent.yaml'
edit 's/^frames:/framse:/'
exits 2 "an unknown key" "${run[@]}" bad.yaml
says "file, line, column, nearest key" 'bad.yaml:7:1: .*framse.*frames'
edit 's/^frames:.*/frames: many/'
exits 2 "a wrong type" "${run[@]}" bad.yaml
says "file, line, column, what was expected" 'bad.yaml:7:9: .*many'
edit 's/^frames:.*/frames: -3/'
exits 2 "a value out of range" "${run[@]}" bad.yaml
says "file and line" 'bad.yaml:7:9: '
edit 's/RTN_INT2/RTN_INT22/'
exits 2 "an unknown method" "${run[@]}" bad.yaml
says "file, line, nearest method" 'bad.yaml:6:.*RTN_INT22.*RTN_INT2'
edit 's/disc/dics/'
exits 2 "an unknown prompt word" "${run[@]}" bad.yaml
says "the word and where" 'bad.yaml:4.*dics'
edit 's/^model:.*/model: nanno/'
exits 2 "an unknown model" "${run[@]}" bad.yaml
says "the nearest model" 'nano'
edit 's/^methods: \[/methods: [[/'
exits 2 "no YAML at all" "${run[@]}" bad.yaml
says "file and line" 'bad.yaml:[0-9]+:[0-9]+: '
check "no database was made for any of these" test ! -e t.db

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
exits 2 "missing weights" "${run[@]}" bad.yaml
says "names the file" 'dit.safetensors'
copy_model
head -c 100000 "$model/dit.safetensors" >m/dit.safetensors
exits 2 "truncated weights" "${run[@]}" bad.yaml
says "names the file" 'dit.safetensors'
copy_model
sed 's/"ffn_dim": 768/"ffn_dim": 760/' "$model/config.json" >m/config.json
exits 2 "weights of another shape" "${run[@]}" bad.yaml
says "names tensor and shapes" 'ffn.*760'
exits 2 "missing weights, generate" generate --model ./nowhere -p 'a large red disc' -o g

# Database files.
sqlite3 other.db 'CREATE TABLE t(x); PRAGMA user_version=3;'
exits 2 "a database that is not ours" run tiny.yaml --db other.db --out o
says "names it" 'other.db'
exits 2 "query of a database that is not ours" query --db other.db 'SELECT 1'
exits 0 "a good run" "${run[@]}" tiny.yaml --filter 'method=BF16' --json
exits 5 "a filter that matches nothing" "${run[@]}" tiny.yaml --filter 'method=BF16 or method=RTN_INT4'
says "quotes it" "no cell of the sweep matches --filter 'method=BF16 or method=RTN_INT4'"
cp t.db newer.db
sqlite3 newer.db 'PRAGMA user_version=99;'
exits 2 "a database of another schema version" run tiny.yaml --db newer.db --out o
says "names both versions" 'newer.db.*99'
exits 2 "query of another schema version" query --db newer.db 'SELECT 1'
head -c 5000 t.db >cut.db
"$kvreel" run tiny.yaml --db cut.db --out o >"$out" 2>"$err"
check "a damaged database is refused" test $? -ne 0
says "names it" 'cut.db'
echo 'not a database' >text.db
exits 2 "a file that is no database" query --db text.db 'SELECT 1'

# A tmpfs simulates a full and a read-only disk, in a mount namespace that ends with its process.
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
    says "says so" 'space|full'
    in_tmpfs size=1m "cp t.db small/t.db && dd if=/dev/zero of=small/fill bs=4k status=none 2>/dev/null;
        '$kvreel' run full.yaml --db small/t.db --out o3; rc=\$?; rm small/fill; cp small/t.db after.db; exit \$rc" \
        >"$out" 2>"$err"
    check "a disk that fills up in mid-sweep gives exit 1 or 3" bash -c "test $? -eq 1 || test $? -eq 3"
    check "what was measured before is still there" \
        test "$(sql after.db "SELECT count(*) FROM cell WHERE outcome='OK'")" -ge 2
    in_tmpfs size=1m "mount -o remount,ro small && '$kvreel' run full.yaml --db small/t.db --out o4" \
        >"$out" 2>"$err"
    check "a read-only directory gives exit 1" test $? -eq 1
    says "names the file" 'small/t.db'
    in_tmpfs size=1m "mount -o remount,ro small && '$kvreel' generate -p 'a large red disc drifts right over a plain blue background' --frames 3 -o small/g" \
        >"$out" 2>"$err"
    check "generate into a read-only directory gives exit 1" test $? -eq 1
    says "names the folder" 'small/g'
else
    skip "a full disk, a read-only directory" "no mount namespace can be made here"
fi
