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

exits 0 "--plugin before the command" --plugin ./center.so list methods --json
json "list methods has the method of the plug-in last" '.[-1].name == "CENTERED_INT4" and .[-1].study == false'
json "the study still has 33 methods" '[.[] | select(.study)] | length == 33'
exits 0 "--plugin after the command" list methods --plugin=center.so
prints "list methods prints the method of the plug-in" '^CENTERED_INT4 '
exits 0 "list methods without the plug-in" list methods
check "kvreel does not remember the plug-in" sh -c "! grep -q CENTERED '$out'"
exits 2 "show without the plug-in" show CENTERED_INT4
exits 0 "show with the plug-in and an option" show CENTERED_INT4 --plugin center.so -O share=0.5 --json
json "the pipeline has the stage of the plug-in with its option" \
    '.axes.codec_k == "center(share=0.5) | sym(bits=4,axis=tokens,group=16)"'
exits 2 "an option out of bounds" show CENTERED_INT4 --plugin center.so -O share=2
says "the error has the option and its value" 'share.*2'
exits 0 "the same plug-in twice" --plugin center.so --plugin ./center.so list methods --json
json "the method is listed once" '[.[] | select(.name == "CENTERED_INT4")] | length == 1'
exits 2 "the plug-in has no version for the study" show CENTERED_INT4@study --plugin center.so
exits 0 "predict with the plug-in" predict -m CENTERED_INT4 --plugin center.so --geometry wan-1.3b --frames 165 --json
json "storing the means lowers compression by less than 0.01" '.compression < 3.2 and .compression > 3.19'

# 32 tokens, 1 head, 16 channels. The key of token t is 8 + (t mod 16) / 16 in all channels (BF16 0x4100 + t mod 16),
# and so is its value.
header='{"k":{"dtype":"BF16","shape":[32,1,16],"data_offsets":[0,1024]},"v":{"dtype":"BF16","shape":[32,1,16],"data_offsets":[1024,2048]}}'
{
    printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0$header"
    for t in {0..15} {0..15} {0..15} {0..15}; do
        for _ in {0..15}; do printf '%b' "\\x$(printf %02x "$t")\\x41"; done
    done
} >kv.safetensors
exits 0 "codec with RTN_INT4" codec -m RTN_INT4 -i kv.safetensors -o plain.safetensors --json \
    -O tokens_per_frame=32 -O frames_per_chunk=1
plain=$(jq .k_mse "$out")
plain_bytes=$(jq .nominal_bytes "$out")
exits 0 "codec with CENTERED_INT4" codec -m CENTERED_INT4 --plugin center.so -i kv.safetensors \
    -o centred.safetensors --json -O tokens_per_frame=32 -O frames_per_chunk=1
# The quantization step is 1/8 of the largest magnitude: 8.94/8 without subtraction of the mean, 0.47/8 with it. The
# squared error should thus fall to about 1/360. The test requires only 1/10, because the keys before subtraction
# happen to lie near one quantization level.
json "subtracting the mean divides the error of the keys by at least 10" ".k_mse >= 0 and .k_mse <= $plain / 10"
json "the mean of the values is not subtracted" '.v_mse > .k_mse'
json "the mean takes 2 bytes per channel" ".nominal_bytes == $plain_bytes + 32"
json "declared and held bytes are equal" '.nominal_bytes == .resident_bytes'
if emulates "a plug-in on an emulated device"; then
    exits 0 "codec with CENTERED_INT4 on an emulated device" codec -m CENTERED_INT4 --plugin center.so \
        -i kv.safetensors -o device.safetensors -O tokens_per_frame=32 -O frames_per_chunk=1 \
        --device emulated
    check "the emulated device decodes the same values" cmp centred.safetensors device.safetensors
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
exits 0 "a sweep with a plug-in" "${run[@]}"
json "all cells of the sweep are OK" '.cells == 3 and .ok == 3'
exits 0 "the sweep again" "${run[@]}" --plugin center.so
json "no cell is run twice" '.ok == 0 and .skipped == 3'
check "the spec of the cell has the hash of the plug-in" sh -c \
    "sqlite3 -readonly t.db \"SELECT spec FROM cell WHERE spec LIKE '%CENTERED%'\" | grep -q \$(sha256sum <center.so | cut -c1-64)"
check "no other spec names a plug-in" test "$(sql t.db "SELECT count(*) FROM cell WHERE spec LIKE '%\"plugins\"%'")" -eq 1
spec=$(sql t.db "SELECT spec FROM cell WHERE spec LIKE '%CENTERED%'")
printf 'x' >>center.so # at the file's end, which ELF headers do not describe: another file with the same code
exits 0 "the sweep with another build of the plug-in" "${run[@]}"
json "only the cell of the plug-in is measured again" '.ok == 1 and .skipped == 2'
printf '{"spec":%s,"plugins":["%s"],"model_dir":"%s/models/nano","out_dir":"o","frames":"f.safetensors","video":null,"reference":null,"reference_sha256":null}' \
    "$spec" "$work/center.so" "$root" >request.json
"$kvreel" worker <request.json >"$out" 2>"$err"
json "a worker refuses another build than the planned one" '.outcome == "ERROR" and (.reason | test("was modified after planning"))'
sed "s|center\.so|$refused/memo.so|; s/RTN_INT4, CENTERED_INT4/BF16, SEEN_INT4/" sweep.yaml >seen.yaml
KVR_TEST_SEEN=$work/seen exits 0 "a timed sweep of a method that could remember blocks" run seen.yaml --db s.db \
    -o s -q --set timing=true
says "the message says that cells have one timed rollout" 'timing: 2 cells have one timed rollout each'
exits 0 "a dry run with two repeats" run seen.yaml --db s.db -o s --set timing=true --set repeats=2 --dry-run --json
json "each cell would get a second rollout" '.to_run == 2 and .timed_once == 0'
check "the warm-up and the timed rollout encode equally many blocks" test "$(sql s.db "SELECT count(*) FROM sample s JOIN cell ON key = cell
    WHERE s.kind = 'warmup' AND name = 'SEEN_INT4'") $(($(grep -c block seen) % 2))" = '1 0'
check "the method meets no block twice" sh -c '! grep -q again seen'
sed -i 's/center\.so/absent.so/' sweep.yaml
exits 2 "a sweep with a missing plug-in is refused" "${run[@]}"
says "the error names file, line and plug-in" 'sweep\.yaml:5:.*absent\.so'

exits 2 "a plug-in of another ABI is refused" --plugin "$refused/other_abi.so" list methods
says "the error has both ABI numbers" "built for ABI $((abi - 1)), but this program has ABI $abi"
exits 2 "a library without the plug-in symbol is refused" --plugin "$refused/no_export.so" list methods
says "the error names the symbol" 'no_export\.so.*kvr_plugin_export'
exits 2 "a plug-in with an unknown stage is refused" --plugin "$refused/unknown_stage.so" list methods
says "the error names the method and the stage" "BROKEN_INT4.*unknown stage 'centre'"
exits 2 "a second plug-in of the same name is refused" --plugin center.so --plugin "$center" list methods
says "the error has the path of the first plug-in" "'center' is already loaded, from .*center\.so"
exits 2 "a text file is refused" --plugin sweep.yaml list methods
says "the error says that it is no shared object" 'not a shared object'
head -c 3000 "$center" >cut.so
exits 2 "a truncated file is refused" --plugin cut.so list methods
says "the error says that the file is truncated" 'is truncated'
exits 2 "a folder is refused" --plugin . list methods
exits 2 "a missing file is refused" --plugin nowhere.so list methods
says "the error names the missing file" 'nowhere\.so: No such file'
exits 2 "--plugin without a file is refused" --plugin
exits 2 "--plugin without a file after the command is refused" list methods --plugin
