#!/usr/bin/env bash
# --plugin: the example of methods/SKELETON.md works, and invalid plug-ins are refused.
. tests/cli/lib.sh || exit 1
abi=$(sed -n 's/.*KVR_PLUGIN_ABI = \([0-9]*\).*/\1/p' methods/plugin.h)
build=$(dirname "$kvreel")
center=$build/examples/plugin/center.so
refused=$build/tests/plugins
if [ ! -e "$center" ]; then
    fail "$center is not built: make plugin-example"
    exit 1
fi
cd "$work" || exit 1
cp "$center" center.so

exits 0 "list before the command" --plugin ./center.so list methods --json
json "the plug-in's method is last" '.[-1].name == "CENTERED_INT4" and .[-1].study == false'
json "the study still has 33" '[.[] | select(.study)] | length == 33'
exits 0 "list after the command" list methods --plugin=center.so
prints "the table has it" '^CENTERED_INT4 '
exits 0 "list without it" list methods
check "it does not stay" sh -c "! grep -q CENTERED '$out'"
exits 2 "show without it" show CENTERED_INT4
exits 0 "show" show CENTERED_INT4 --plugin center.so -O share=0.5 --json
json "its stage is in the pipeline, with its option" \
    '.axes.codec_k == "center(share=0.5) | sym(bits=4,axis=tokens,group=16)"'
exits 2 "an option out of bounds" show CENTERED_INT4 --plugin center.so -O share=2
says "names the limits" 'share.*2'
exits 0 "the same file twice is once" --plugin center.so --plugin ./center.so list methods --json
json "one method" '[.[] | select(.name == "CENTERED_INT4")] | length == 1'
exits 2 "no reading of the study" show CENTERED_INT4@study --plugin center.so
exits 0 "predict" predict -m CENTERED_INT4 --plugin center.so --geometry wan-1.3b --frames 165 --json
json "the means cost little" '.compression < 3.2 and .compression > 3.19'

# 32 tokens with 1 head of 16 channels: keys 8 + t/16 (BF16 0x4100 + t), values the same.
header='{"k":{"dtype":"BF16","shape":[32,1,16],"data_offsets":[0,1024]},"v":{"dtype":"BF16","shape":[32,1,16],"data_offsets":[1024,2048]}}'
{
    printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0$header"
    for t in {0..15} {0..15} {0..15} {0..15}; do
        for _ in {0..15}; do printf '%b' "\\x$(printf %02x "$t")\\x41"; done
    done
} >kv.safetensors
exits 0 "codec, plain" codec -m RTN_INT4 -i kv.safetensors -o plain.safetensors --json \
    -O tokens_per_frame=32 -O frames_per_chunk=1
plain=$(jq .k_mse "$out")
plain_bytes=$(jq .nominal_bytes "$out")
exits 0 "codec, centred" codec -m CENTERED_INT4 --plugin center.so -i kv.safetensors \
    -o centred.safetensors --json -O tokens_per_frame=32 -O frames_per_chunk=1
# The step is 1/8 of the largest magnitude: 8.94/8 without the mean's subtraction, 0.47/8 with it. The squared error
# is then about 1/360. The test requires only 1/10, because the plain values happen to lie near one level.
json "keys off zero come back better" ".k_mse >= 0 and .k_mse <= $plain / 10"
json "values are coded as before" '.v_mse > .k_mse'
json "the mean is counted: 2 bytes a channel" ".nominal_bytes == $plain_bytes + 32"
json "declared bytes are held bytes" '.nominal_bytes == .resident_bytes'
if emulates "a plug-in on an emulated device"; then
    exits 0 "on a device that it knows nothing of" codec -m CENTERED_INT4 --plugin center.so \
        -i kv.safetensors -o device.safetensors -O tokens_per_frame=32 -O frames_per_chunk=1 \
        --device emulated
    check "the same values come back" cmp centred.safetensors device.safetensors
fi

cat >sweep.yaml <<'YAML'
question: does a method from a plug-in run in a sweep?
model: nano
prompts:
  - {id: red, text: a large red disc drifts right over a plain blue background}
plugins: [center.so]
methods: [RTN_INT4, CENTERED_INT4]
frames: 6
YAML
run=(run sweep.yaml --db t.db -o o --json -q)
exits 0 "run" "${run[@]}"
json "every cell is ok" '.cells == 3 and .ok == 3'
exits 0 "run again" "${run[@]}" --plugin center.so
json "nothing is run twice" '.ok == 0 and .skipped == 3'
check "the plug-in is in its cell's spec" sh -c \
    "sqlite3 -readonly t.db \"SELECT spec FROM cell WHERE spec LIKE '%CENTERED%'\" | grep -q \$(sha256sum <center.so | cut -c1-64)"
check "and in no other" test "$(sql t.db "SELECT count(*) FROM cell WHERE spec LIKE '%\"plugins\"%'")" -eq 1
spec=$(sql t.db "SELECT spec FROM cell WHERE spec LIKE '%CENTERED%'")
printf 'x' >>center.so # at the file's end, which ELF headers do not describe: another file with the same code
exits 0 "another build" "${run[@]}"
json "is another cell; the others stay" '.ok == 1 and .skipped == 2'
printf '{"spec":%s,"plugins":["%s"],"model_dir":"%s/models/nano","out_dir":"o","frames":"f.safetensors","video":null,"reference":null,"reference_sha256":null}' \
    "$spec" "$work/center.so" "$root" >request.json
"$kvreel" worker <request.json >"$out" 2>"$err"
json "a worker that finds another build refuses" '.outcome == "ERROR" and (.reason | test("was modified after planning"))'
sed "s|center\.so|$refused/memo.so|; s/RTN_INT4, CENTERED_INT4/BF16, SEEN_INT4/" sweep.yaml >seen.yaml
KVR_TEST_SEEN=$work/seen exits 0 "a method that would remember, timed behind a warm-up" run seen.yaml --db s.db \
    -o s -q --set timing=true
says "one timed rollout each is said to be one sample" 'timing: 2 cells have one timed rollout each'
exits 0 "asked for again, with repeats" run seen.yaml --db s.db -o s --set timing=true --set repeats=2 --dry-run --json
json "each would have a second" '.to_run == 2 and .timed_once == 0'
check "has coded in both rollouts" test "$(sql s.db "SELECT count(*) FROM sample s JOIN cell ON key = cell
    WHERE s.kind = 'warmup' AND name = 'SEEN_INT4'") $(($(grep -c block seen) % 2))" = '1 0'
check "and met no block twice" sh -c '! grep -q again seen'
sed -i 's/center\.so/absent.so/' sweep.yaml
exits 2 "a sweep whose plug-in is not there" "${run[@]}"
says "names file and line" 'sweep\.yaml:5:.*absent\.so'

exits 2 "another ABI" --plugin "$refused/other_abi.so" list methods
says "names both numbers" "built for ABI $((abi - 1)), but this program has ABI $abi"
exits 2 "no plug-in" --plugin "$refused/no_export.so" list methods
says "names the symbol" 'no_export\.so.*kvr_plugin_export'
exits 2 "a pipeline with a wrong word" --plugin "$refused/unknown_stage.so" list methods
says "names method and stage" "BROKEN_INT4.*unknown stage 'centre'"
exits 2 "a name that is taken" --plugin center.so --plugin "$center" list methods
says "says where from" "'center' is already loaded, from .*center\.so"
exits 2 "a text file" --plugin sweep.yaml list methods
says "is no shared object" 'not a shared object'
head -c 3000 "$center" >cut.so
exits 2 "a file cut short" --plugin cut.so list methods
says "is said to be" 'is truncated'
exits 2 "a folder" --plugin . list methods
exits 2 "no such file" --plugin nowhere.so list methods
says "is named" 'nowhere\.so: No such file'
exits 2 "no file at all" --plugin
exits 2 "nor after the command" list methods --plugin
