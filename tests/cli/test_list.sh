#!/usr/bin/env bash
# list, show, help and version: the registry as text and as JSON, and messages for misspelt names.
. tests/cli/lib.sh || exit 1

exits 0 "list methods" list methods
prints "the table names a method" '^RTN_INT4 '
exits 0 "list methods --json" list methods --json
json "methods have the keys of the contract" \
    'length >= 4 and all(.[]; has("name") and has("family") and has("paper") and has("study") and has("bits_per_element"))'
json "BF16 takes 16 bits" 'any(.[]; .name == "BF16" and .bits_per_element == 16)'
json "fewer bits for RTN_INT2 than for RTN_INT4" \
    '(.[] | select(.name == "RTN_INT2").bits_per_element) < (.[] | select(.name == "RTN_INT4").bits_per_element)'
for kind in metrics models suites; do
    exits 0 "list $kind" list "$kind"
    exits 0 "list $kind --json" list $kind --json
    json "$kind have names" 'length >= 1 and all(.[]; .name | length > 0)'
done
exits 0 "list readings" list readings
prints "the table names a reading" '^Q4_0@llamacpp '
exits 0 "list readings --json" list readings --json
json "every reading of a name is there, the row first" \
    '[.[] | select(.name == "KIVI_INT4").reading] == ["intended", "study", "lightx2v"]'
json "a name with one reading is not" 'all(.[]; .name != "F32")'
json "the others say what differs and where that was read" \
    'all(.[] | select(.reading != "intended"); (.differs | length > 0) and (.source | length > 0))'
json "and are another codec, or other tiers, unless they say that the row is theirs" \
    '[.[] | select(.differs | tostring | test("the row is theirs") | not)] | group_by(.name) | all(.[]; ([.[].axes] | unique | length) == length)'
json "and are the row's where they say so" \
    'group_by(.name) | all(.[]; . as $all | all(.[] | select(.differs | tostring | test("the row is theirs")); .axes == $all[0].axes))'
exits 0 "show what is other than its authors' code" show FLOWCACHE_OFFICIAL
prints "in a paragraph" "differences from the paper"
prints "with the guidance that is not there" "guidance"
exits 0 "show what is no method" show PAFU_ORACLE_NONCAUSAL --json
json "by its name, its title and a warning" '(.title | test("NOT CAUSAL")) and (.warning | test("not causal"))'
exits 0 "show a project's reading" show Q4_0@llamacpp
prints "says what it does" 'The default Hadamard rotation'
exits 2 "list of an unknown kind" list metods
says "names the nearest kind" 'methods'

exits 0 "show" show RTN_INT4
exits 0 "show --json" show RTN_INT4 --json
json "show has the keys of the contract" \
    '.name == "RTN_INT4" and .reading == "intended" and (.axes | type == "object") and (.options | type == "array")'
json "an option has default and bounds" 'any(.options[]; .name == "k.bits" and .default == 4 and .min < .max)'
exits 2 "show a reading there is not" show RTN_INT4@studdy
exits 0 "show with an option" show RTN_INT4 -O bits=3 --json
json "the option took effect" '.axes.codec_k | test("bits=3")'
exits 2 "show an unknown method" show RTN_INT44
says "names the nearest method" 'RTN_INT4'
exits 2 "an option out of bounds" show RTN_INT4 -O bits=99
says "names option and value" 'bits.*99'

exits 2 "no command at all"
exits 2 "an unknown command" lst
says "names the nearest command" "did you mean 'list'"
exits 2 "an unknown option" run --jbs 3 x.yaml
says "names the nearest option" 'did you mean --jobs'
exits 2 "a number that is none" run x.yaml --jobs=many
says "names the limits" "'many'.*from 0 to"
exits 2 "an option without its value" run x.yaml --db
exits 2 "a word too many" version now
for command in list show run generate compare sheet query report plot engine bench doctor version; do
    exits 0 "$command --help" "$command" --help
    check "$command --help begins with examples" sh -c "head -n 1 '$out' | grep -q '^Examples:'"
done
exits 0 "--help" --help
exits 0 "--version" --version
prints "the version names SQLite" 'sqlite +[0-9]'
exits 0 "version --json" version --json
json "the version names its commit" '.git | length > 0'
json "the version says how the kernels were built" '.kernels | test("^(emulated|nvcc [0-9]+[.][0-9]+ for)")'
exits 0 "doctor" doctor
exits 0 "doctor --json" doctor --json
json "doctor lists checks" 'length >= 4 and all(.[]; has("ok"))'
json "doctor names the device, or why there is none" \
    'any(.[]; .name == "device" and (.found | length > 7))'
KVREEL_NVML=${kvreel%/*}/tests/plugins/fake_nvml.so exits 0 "doctor with a library that tells of GPUs" doctor --json
json "names its driver" 'any(.[]; .name == "GPU state" and .ok and .found == "NVML of driver 999.1")'
KVREEL_NVML=$work/none.so exits 0 "doctor without one" doctor --json
json "says why nobody tells" 'any(.[]; .name == "GPU state" and (.ok | not) and (.found | test("^no NVML: .*none.so")))'
KVREEL_CUDNN=${kvreel%/*}/tests/plugins/fake_cudnn_conv.so exits 0 "doctor with a library of convolutions" doctor --json
json "names it" 'any(.[]; .name == "convolutions" and .ok and .found == "cuDNN 9.10")'
KVREEL_CUDNN=$work/none.so exits 0 "doctor without that" doctor --json
json "says why there is none" 'any(.[]; .name == "convolutions" and (.found | test("^kvreel.s own kernels .cuDNN: .*none.so")))'

KVREEL_CUDNN=${kvreel%/*}/tests/plugins/fake_cudnn.so exits 0 "doctor with a library of attention" doctor --json
json "names it as the reference" 'any(.[]; .name == "reference" and .ok and .found == "cuDNN 9.19")'
KVREEL_CUDNN=$work/none.so exits 0 "doctor without that" doctor --json
json "says what stands in its place, and why" \
    'any(.[]; .name == "reference" and (.found | test("^kvreel.s dense kernel \\(cuDNN: .*none.so")))'

exits 0 "after -- a dash is a word" show -- RTN_INT4
check "data on stdout, nothing on stderr" test ! -s "$err"
check "a reader that leaves is no error" bash -o pipefail -c "'$kvreel' list methods --json | head -n 1"
if [ -e /dev/full ]; then
    "$kvreel" list methods >/dev/full 2>"$err"
    check "a full disk behind stdout gives exit 1" test $? -eq 1
    says "and says so" 'No space left'
else
    skip "a full disk behind stdout" "no /dev/full here"
fi
