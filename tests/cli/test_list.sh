#!/usr/bin/env bash
# list, show, help and version: the registry as text and as JSON, and messages for misspelt names.
. tests/cli/lib.sh || exit 1

exits 0 "list methods" list methods
prints "list methods prints RTN_INT4" '^RTN_INT4 '
exits 0 "list methods --json" list methods --json
json "methods have the documented keys" \
    'length >= 4 and all(.[]; has("name") and has("family") and has("paper") and has("study") and has("bits_per_element"))'
json "BF16 takes 16 bits" 'any(.[]; .name == "BF16" and .bits_per_element == 16)'
json "fewer bits for RTN_INT2 than for RTN_INT4" \
    '(.[] | select(.name == "RTN_INT2").bits_per_element) < (.[] | select(.name == "RTN_INT4").bits_per_element)'
for kind in metrics models suites; do
    exits 0 "list $kind" list "$kind"
    exits 0 "list $kind --json" list $kind --json
    json "$kind have names" 'length >= 1 and all(.[]; .name | length > 0)'
done
exits 0 "list methods as a table" list methods
check "bits have at most two decimals" bash -c "! grep -qE ' [0-9]+[.][0-9]{3,}  ' '$out'"
exits 0 "list metrics as a table" list metrics
prints "a metric without an upper bound has a dash" '^identical_frames +frames +higher +0 +- '
prints "a large bound has no exponent" '^chunk_discontinuity .* 0 +1000000 '
exits 0 "list models as a table" list models
prints "a model without a window has the word all" '^smollm2-135m .* all +'
exits 0 "list readings" list readings
prints "list readings prints Q4_0@llamacpp" '^Q4_0@llamacpp '
check "lines of list readings have fewer than 200 characters" test "$(awk '{ if (length > n) n = length } END { print n }' "$out")" -lt 200
exits 0 "list readings --json" list readings --json
json "a method with several versions lists all, the intended first" \
    '[.[] | select(.name == "KIVI_INT4").reading] == ["intended", "study", "lightx2v"]'
json "a method with one version is not listed" 'all(.[]; .name != "F32")'
json "other versions state their difference and its source" \
    'all(.[] | select(.reading != "intended"); (.differs | length > 0) and (.source | length > 0))'
json "other versions have another codec or tiers, unless they equal the row" \
    '[.[] | select(.differs | tostring | test("the row is theirs") | not)] | group_by(.name) | all(.[]; ([.[].axes] | unique | length) == length)'
json "versions that say that they equal the row do" \
    'group_by(.name) | all(.[]; . as $all | all(.[] | select(.differs | tostring | test("the row is theirs")); .axes == $all[0].axes))'
exits 0 "show a method that differs from the code of its authors" show FLOWCACHE_OFFICIAL
prints "show prints the differences from the paper" "differences from the paper"
prints "show names the missing guidance" "guidance"
exits 0 "show of a method with a long specification" show PAFU_CAUSAL
check "show breaks the specification after commas" bash -c "grep -q ',recent=0,\$' '$out' && ! grep -qE '.{101}' '$out'"
exits 0 "show of a method with tiers" show TPTQ_INT2
check "show prints parts in two columns" test "$(grep -E '^  (codec_[kv][.](old|recent)|tiers|retention) ' "$out" | cut -c 1-17 | grep -c ' $')" -eq 6
exits 0 "show a method that is not causal" show PAFU_ORACLE_NONCAUSAL --json
json "title and warning say that it is not causal" '(.title | test("NOT CAUSAL")) and (.warning | test("not causal"))'
exits 0 "show a version of another project" show Q4_0@llamacpp
prints "show prints what the version does" 'The default Hadamard rotation'
exits 2 "list of an unknown kind" list metods
says "the error suggests methods" 'methods'

exits 0 "show of a pipeline with two grids" show PRQ_INT2 -O k.2.bits=3 --json
json "each grid's option has a name" '[.options[] | select(.name | test("^k.*bits")) | "\(.name)=\(.value)"] == ["k.1.bits=2", "k.2.bits=3"]'
json "and sets one grid" '.axes.codec_k | test("bits=2.* \\+ .*bits=3")'

exits 0 "show" show RTN_INT4
exits 0 "show --json" show RTN_INT4 --json
json "show has the documented keys" \
    '.name == "RTN_INT4" and .reading == "intended" and (.axes | type == "object") and (.options | type == "array")'
json "an option has a default and bounds" 'any(.options[]; .name == "k.bits" and .default == 4 and .min < .max)'
exits 2 "show refuses an unknown version" show RTN_INT4@studdy
exits 0 "show with an option" show RTN_INT4 -O bits=3 --json
json "show -O changes the codec" '.axes.codec_k | test("bits=3")'
exits 2 "show refuses a misspelt option" show RTN_INT4 -O bit=3
says "the error suggests the option" "no option 'bit'; did you mean 'bits'"
exits 2 "show refuses a misspelt option of keys" show RTN_INT4 -O k.gruop=16
says "the error suggests the option with its prefix" "did you mean 'k.group'"
exits 2 "show refuses an option without a similar name" show RTN_INT4 -O wan=3
says "the error names the command that lists options" "no option 'wan'; .kvreel show RTN_INT4. lists"
exits 2 "show an unknown method" show RTN_INT44
says "the error suggests RTN_INT4" 'RTN_INT4'
exits 2 "an option out of bounds" show RTN_INT4 -O bits=99
says "the error has the option and its value" 'bits.*99'

exits 2 "kvreel without a command is an error"
exits 2 "an unknown command" lst
says "the error suggests list" "did you mean 'list'"
exits 2 "an unknown option" run --jbs 3 x.yaml
says "the error suggests --jobs" 'did you mean --jobs'
exits 2 "--jobs refuses a word" run x.yaml --jobs=many
says "the error has the limits of --jobs" "'many'.*from 0 to"
exits 2 "an option without its value" run x.yaml --db
exits 2 "version refuses an argument" version now
for command in list show run generate compare sheet query report plot engine bench doctor version; do
    exits 0 "$command --help" "$command" --help
    check "$command --help begins with examples" sh -c "head -n 1 '$out' | grep -q '^Examples:'"
done
exits 0 "bench --help" bench --help
prints "the help defines a ratio as a quotient of speeds" "benchmark's speed divided by the reference's"
exits 0 "--help" --help
check "the exit codes are those of README.md" diff \
    <(sed -n '/^Exit codes:/,$s/^ *\([0-9][0-9]*\)  \(.*\)/| \1 | \2 |/p' "$out") \
    <(sed -n '/^## Exit codes/,/^## Read/p' "$root/README.md" | grep '^| [0-9]')
"$kvreel" man >"$work/man"
check "the manual has the seven exit codes" test "$(sed -n '/^.SH EXIT STATUS/,/^.SH ENV/p' "$work/man" | grep -cxE '[0-9]+')" -eq 7
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
KVREEL_NVML=${kvreel%/*}/tests/plugins/fake_nvml.so exits 0 "doctor with the NVML stub" doctor --json
json "doctor names the driver of NVML" 'any(.[]; .name == "GPU state" and .ok and .found == "NVML of driver 999.1")'
KVREEL_NVML=$work/none.so exits 0 "doctor without the NVML library" doctor --json
json "doctor says why there is no NVML" 'any(.[]; .name == "GPU state" and (.ok | not) and (.found | test("^no NVML: .*none.so")))'
KVREEL_CUDNN=${kvreel%/*}/tests/plugins/fake_cudnn_conv.so exits 0 "doctor with a stub of the convolutions of cuDNN" doctor --json
json "doctor names cuDNN for convolutions" 'any(.[]; .name == "convolutions" and .ok and .found == "cuDNN 9.10")'
KVREEL_CUDNN=$work/none.so exits 0 "doctor without the convolutions of cuDNN" doctor --json
json "doctor says why convolutions use the kernels of kvreel" 'any(.[]; .name == "convolutions" and (.found | test("^kvreel.s own kernels .cuDNN: .*none.so")))'

KVREEL_CUDNN=${kvreel%/*}/tests/plugins/fake_cudnn.so exits 0 "doctor with a stub of the attention of cuDNN" doctor --json
json "doctor names cuDNN as the reference" 'any(.[]; .name == "reference" and .ok and .found == "cuDNN 9.19")'
KVREEL_CUDNN=$work/none.so exits 0 "doctor without the attention of cuDNN" doctor --json
json "doctor says why the dense kernel is the reference" \
    'any(.[]; .name == "reference" and (.found | test("^kvreel.s dense kernel \\(cuDNN: .*none.so")))'

exits 0 "an argument after -- is no option" show -- RTN_INT4
check "show prints nothing to stderr" test ! -s "$err"
check "a closed output pipe is no error" bash -o pipefail -c "'$kvreel' list methods --json | head -n 1"
if [ -e /dev/full ]; then
    for command in 'list methods' 'list methods --md' 'list methods --json' 'show RTN_INT4' version; do
        read -ra words <<<"$command"
        "$kvreel" "${words[@]}" >/dev/full 2>"$err"
        check "a full disk at stdout of $command gives exit 1" test $? -eq 1
        says "the error names stdout and the reason" '^kvreel: stdout: No space left on device$'
    done
else
    skip "a full disk at stdout" "no /dev/full here"
fi
