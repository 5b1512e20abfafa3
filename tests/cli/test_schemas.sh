#!/usr/bin/env bash
# Outputs conform to docs/schemas, and the checker finds errors in wrong documents.
. tests/cli/lib.sh || exit 1
schemas=$root/docs/schemas

faults() { # SCHEMA DOCUMENT
    jq -rn --slurpfile s "$1" --slurpfile d "$2" -f "$root/tests/cli/schema.jq"
}
# unknown SCHEMA DOCUMENT: prints the document's keys that the schema lacks, also in objects inside lists.
unknown() { # SCHEMA DOCUMENT
    jq -rn --slurpfile s "$1" --slurpfile d "$2" '
        def u($s; $at): if type == "object" then to_entries[] | .key as $k |
                if $s.properties | has($k)? then .value | u($s.properties[$k]; "\($at).\($k)")
                elif $s.additionalProperties then empty else "\($at).\($k)" end
            elif type == "array" then .[] | u($s.items // {}; $at) else empty end;
        $d[0] | u($s[0]; "$")' | sort -u
}
seen=
conforms() { # SCHEMA NAME ARGS...
    local schema=$1 name=$2
    shift 2
    exits 0 "$name" "$@"
    cp "$out" "$work/document"
    fits "$schema" "$name"
}
fits() { # SCHEMA NAME: checks $work/document
    local schema=$1 name=$2
    seen+=" $schema"
    check "$name conforms to docs/schemas/$schema.json" test -z "$(faults "$schemas/$schema.json" "$work/document" | tee >(cat >&2))"
    check "$name has no key that docs/schemas/$schema.json lacks" test -z "$(unknown "$schemas/$schema.json" "$work/document" | tee >(cat >&2))"
}

common_config "$work/q.yaml"
shared_sweep "$work/q.yaml" "$work/q.db" "$work/out"
cd "$work" || exit 1

for kind in methods readings metrics models suites; do
    conforms list-$kind "list $kind" list $kind --json
done
conforms show "show" show RTN_INT4@study --json
conforms show "show of BF16" show BF16 --json
conforms show "show of a project's reading" show KIVI_INT4@lightx2v --json
conforms show "show of a row with a note and a warning" show PAFU_ORACLE_NONCAUSAL --json
conforms vocabulary "vocabulary" vocabulary --json
conforms plugin "plugin check" plugin check "$(dirname "$kvreel")/examples/plugin/center.so" --json
conforms codec "codec" codec -m RTN_INT4 --draw 90x2x16 --json
conforms predict "predict" predict -m KIVI_INT4 --geometry wan-1.3b --frames 33 --json
conforms generate "generate" generate -m RTN_INT4 --reference --frames 3 -q -p 'a large red disc' -o g --json
conforms generate "generate alone" generate -m BF16 --frames 3 -q -p 'a large red disc' -o g --json
conforms compare "compare" compare g/BF16-*.safetensors g/RTN_INT4-*.safetensors --json --series
conforms compare "compare of videos" compare g/BF16-*.mp4 g/RTN_INT4-*.mp4 --json
conforms run "run" run q.yaml --db q.db --out out -q --json
conforms status "status" status --db q.db --json
conforms score "score" score sharpness --db q.db --out out --json
conforms merge "merge" merge q.db -o all.db --json
conforms fsck "fsck" fsck q.db --json
conforms submit-result "submit-result" submit-result --db q.db -o q.kvresult --json
exits 0 "a board" report --board board q.kvresult
cp board/board.json "$work/document"
fits board "board.json"
conforms plot "plot" plot pareto --db q.db -o figures --json
conforms model "model check" model check "$root/models/nano" --json
echo 'a small dog runs' >prompts.txt
conforms fit "fit" fit --memory 24GiB -m BF16 --json
conforms embed "embed" embed --prompts prompts.txt --model "$root/tests/fixtures/wan_folder" -o pack.safetensors -q --json
conforms engine "engine check" engine check "$root/models/nano" --json
conforms profile "profile" profile --prompts 1 --frames 6 --json
conforms doctor "doctor" doctor --json
conforms version "version" version --json
conforms rows "query" query --db q.db --json 'SELECT * FROM summary'
conforms rows "report" report --db q.db -f json
conforms rows "stats" stats timing --db q.db --json
conforms rows "pareto" pareto --db q.db --json
conforms rows "claims" claims --db q.db --json
conforms rows "settle" settle iq-rtn2 --db q.db --json
conforms nll "nll" nll "$root/tests/fixtures/lm" "$root/tests/fixtures/lm/texts.safetensors" --json
conforms trace "trace record" trace record small.kvtrace -n 3 -q -p 'a large red disc' --json
conforms trace "trace check" trace check small.kvtrace --json
conforms rows "reproduce" reproduce study33 --quantity compression --json
video=$(basename "$(sql q.db "SELECT path FROM artifact WHERE kind = 'video' LIMIT 1")")
printf '{"aesthetic_quality": [0.5, [{"video_path": "x/%s", "video_results": 0.5}]]}' "$video" >vbench.json
conforms import "import" import vbench vbench.json --db q.db --json

for file in "$schemas"/*.json; do
    name=$(basename "$file" .json)
    check "a document is checked against $name" grep -qw -- "$name" <<<"$seen"
    [ "$(jq -r .type "$file")" = array ] && continue
    check "$name requires the number of the schema" jq -e '.properties.schema.const == 1 and (.required | index("schema"))' "$file"
done
check "every command that prints a JSON object has a schema" test -z "$(for c in $("$kvreel" completion --values commands); do
    "$kvreel" "$c" --help | grep -q -- '--json' || continue
    case $c in list | query | report | stats | pareto | claims | settle | reproduce | bench) continue ;; esac # print lists
    [ -e "$schemas/$c.json" ] || echo "$c"
done | tee >(cat >&2))"

# The checker must find errors that the test inserts into documents.
cp "$work/document" good.json
wrong() { # NAME SCHEMA FILTER DOCUMENT: the jq filter inserts an error
    jq "$3" "$4" >wrong.json
    check "$1 is found" test -n "$(faults "$schemas/$2.json" wrong.json)"
}
"$kvreel" codec -m RTN_INT4 --draw 90x2x16 --json >codec.json
wrong "a missing key" codec 'del(.tokens)' codec.json
wrong "a wrong type" codec '.tokens = "90"' codec.json
wrong "a fraction instead of an integer" codec '.tokens = 90.5' codec.json
wrong "another number of the schema" codec '.schema = 2' codec.json
wrong "a negative size" codec '.bf16_bytes = -1' codec.json
wrong "an invalid hash" codec '.stored_sha256 = "abc"' codec.json
"$kvreel" show RTN_INT4 --json >show.json
wrong "a value that is not listed" show '.reading = "other"' show.json
wrong "a fault in a list" show '.options[1].name = 3' show.json
wrong "a fault in a map" show '.axes.position = 1' show.json
jq '.more = 1' codec.json >more.json
check "a key that is not in the schema is found" test -n "$(unknown "$schemas/codec.json" more.json)"
if python_has jsonschema "an independent checker agrees on the schemas"; then
    check "an independent checker agrees on the schemas" "$python" -c "
import json, glob, jsonschema
for f in glob.glob('$schemas/*.json'): jsonschema.Draft202012Validator.check_schema(json.load(open(f)))
jsonschema.validate(json.load(open('codec.json')), json.load(open('$schemas/codec.json')))
jsonschema.validate(json.load(open('show.json')), json.load(open('$schemas/show.json')))"
    jq '.schema = 2' codec.json >wrong.json
    check "the independent checker refuses a wrong document" bash -c "! '$python' -c \"
import json, jsonschema
jsonschema.validate(json.load(open('wrong.json')), json.load(open('$schemas/codec.json')))\" 2>said && grep -q ValidationError said"
fi
