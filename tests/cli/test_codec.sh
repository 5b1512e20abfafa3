#!/usr/bin/env bash
# codec: every method encodes and decodes K and V from a file to a file, and damaged files are refused.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
three_threads

# tensors FILE TOKENS HEADS DIM [DTYPE [V_TOKENS [POISON]]]: writes random k and v with magnitudes near 1 to a
# safetensors file. POISON replaces the first four bytes of v.
tensors() {
    local file=$1 t=$2 h=$3 d=$4 dtype=${5:-F32} tv=${6:-$2} poison=${7:-} size=4
    [ "$dtype" = F32 ] || [ "$dtype" = I32 ] || size=2
    local nk=$((t * h * d * size)) nv=$((tv * h * d * size)) head
    head="{\"k\":{\"dtype\":\"$dtype\",\"shape\":[$t,$h,$d],\"data_offsets\":[0,$nk]},\"v\":{\"dtype\":\"$dtype\",\"shape\":[$tv,$h,$d],\"data_offsets\":[$nk,$((nk + nv))]}}"
    while [ $((${#head} % 8)) -ne 0 ]; do head="$head "; done
    # shellcheck disable=SC2059
    {
        printf "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' $((${#head} % 256)) $((${#head} / 256)))"
        printf '%s' "$head"
        LC_ALL=C awk -v n=$(((nk + nv) / size)) -v wide=$((size == 4)) 'BEGIN {
            srand(7)
            for (i = 0; i < n; i++) {
                a = 1 + int(rand() * 126); b = rand() < 0.5 ? 63 : 191
                if (wide) printf "%c%c", 1 + int(rand() * 126), 1 + int(rand() * 126)
                printf "%c%c", a, b
            }
        }' | LC_ALL=C head -c $((nk + nv))
    } >"$file"
    [ -z "$poison" ] || printf '%b' "$poison" |
        dd of="$file" bs=1 seek=$((8 + ${#head} + nk)) conv=notrunc status=none
}

tensors kv.safetensors 90 2 16
exits 0 "codec" codec -m RTN_INT4 -i kv.safetensors -o out.safetensors -O tokens_per_frame=10 --json
json "codec --json has the documented keys" \
    'has("method") and has("reading") and has("tokens") and has("heads") and has("dim") and has("bf16_bytes") and has("nominal_bytes") and has("resident_bytes") and has("compression") and has("k_mse") and has("v_mse")'
json "codec --json has shape and bytes" \
    '.tokens == 90 and .heads == 2 and .dim == 16 and .bf16_bytes == 2 * 90 * 32 * 2 and .nominal_bytes == .resident_bytes'
json "the decoded tensors are close to the input" '.k_mse > 0 and .k_mse < 0.1 and .nonfinite_out == 0'
check "the output file has F32 tensors of the shape of the input" bash -c \
    "head -c 400 out.safetensors | grep -aq '\"dtype\":\"F32\",\"shape\":\[90,2,16\]'"
exits 0 "codec with RTN_INT4@study" codec -m RTN_INT4@study -i kv.safetensors -o out.safetensors --json
# ceil(90 / 16) = 6 blocks. K and V each have 96 tokens of 32 channels in 4 bits and 6 * 32 step sizes of 2 B.
json "RTN_INT4@study counts its padding" '.reading == "study" and .nominal_bytes == 2 * (96 * 32 / 2 + 2 * 6 * 32)'
exits 0 "codec with F32" codec -m F32 -i kv.safetensors -o out.safetensors --json
json "F32 has no error" '.k_mse == 0 and .v_mse == 0'
exits 0 "codec with two equal successive inputs" codec -m F32 -i kv.safetensors -i kv.safetensors -o twice.safetensors
check "a second equal input changes no output byte" cmp out.safetensors twice.safetensors
tensors large.safetensors 1100 2 128 BF16 # 281,600 elements; fewer than 2^18 run on one thread
for method in KIVI_INT2 PRQ_INT4; do
    exits 0 "$method" codec -m "$method" -i large.safetensors -o a.safetensors
    OMP_NUM_THREADS=1 exits 0 "$method with one thread" codec -m "$method" -i large.safetensors -o b.safetensors
    check "$method: one and three threads write the same bytes" cmp a.safetensors b.safetensors
done

# A head dimension of 128 is a multiple of every method's channel group.
tensors one.safetensors 1 1 128
tensors some.safetensors 90 1 128
tensors more.safetensors 120 1 128 BF16
methods=$("$kvreel" list methods --json | jq -r '.[] | .name, (select(.study).name + "@study")')
for method in $methods; do
    "$kvreel" codec -m "$method" -i one.safetensors -o out.safetensors --json >"one-$method" 2>"err-$method" &&
        "$kvreel" codec -m "$method" -i some.safetensors -i more.safetensors -o out.safetensors \
            -O tokens_per_frame=10 -O layers=4 -O layer=2 --json >"two-$method" 2>>"err-$method"
done
# One jq call reads all files, because starting jq takes longer than running codec.
jq -r 'select(.nominal_bytes > 0 and .nonfinite_out == 0) | "\(input_filename): \(.tokens)"' one-* two-* >coded
for method in $methods; do
    check "$method: codec encodes one token, and two successive inputs" bash -c "grep -qxF 'one-$method: 1' coded && grep -qxF 'two-$method: 120' coded ||
        { cat 'err-$method'; false; }"
done
exits 0 "codec with 90 tokens, of which 40 are active" \
    codec -m FLOWCACHE_HYBRID_INT2@study -i kv.safetensors -o out.safetensors -O tokens_per_frame=10 -O active_tokens=40 --json
json "codec reports 40 active tokens of 90" '.active_tokens == 40 and .tokens == 90'

tensors nan.safetensors 20 2 16 F32 20 '\x00\x00\xc0\x7f'
exits 2 "codec refuses a NaN" codec -m RTN_INT4 -i nan.safetensors -o no.safetensors
says "the error has the number and position of NaNs" 'v: 1 values.*token 0, head 0, channel 0'
check "codec writes no file after a NaN" test ! -e no.safetensors
exits 0 "codec --keep-nonfinite accepts a NaN" codec -m RTN_INT4 -i nan.safetensors -o out.safetensors --keep-nonfinite --json
json "codec --keep-nonfinite counts NaNs" '.nonfinite_in == 1 and .nonfinite_out >= 1 and .v_mse == null and .k_mse > 0'
exits 2 "codec refuses a shorter input after a longer one" codec -m RTN_INT4 -i more.safetensors -i some.safetensors -o out.safetensors
says "the error has both numbers of tokens" '90 active tokens.*120'
tensors odd.safetensors 20 2 24
exits 2 "QUAROT_KV_INT4 refuses a head_dim that is no power of two" codec -m QUAROT_KV_INT4 -i odd.safetensors -o out.safetensors
says "the error has the head_dim" 'head_dim .channels per head. is 24'
exits 2 "codec refuses inputs of different head_dim" codec -m RTN_INT4 -i kv.safetensors -i odd.safetensors -o out.safetensors
says "the error has both head dimensions" '24.*16'
tensors uneven.safetensors 20 2 16 F32 21
exits 2 "codec refuses k and v of different shapes" codec -m RTN_INT4 -i uneven.safetensors -o out.safetensors
says "the error has the shapes of k and v" '\[21, 2, 16\].*\[20, 2, 16\]'
tensors ints.safetensors 20 2 16 I32
exits 2 "codec refuses an integer dtype" codec -m RTN_INT4 -i ints.safetensors -o out.safetensors
says "the error names the dtype" 'I32'
sed 's/"v"/"w"/' kv.safetensors >missing.safetensors
exits 2 "codec refuses a file without v" codec -m RTN_INT4 -i missing.safetensors -o out.safetensors
says "the error names the missing tensor" "'?v'?"
head -c 500 kv.safetensors >short.safetensors
exits 2 "codec refuses a truncated file" codec -m RTN_INT4 -i short.safetensors -o out.safetensors
if truncate -s $((8 + 144 + 2 * 2147483648 * 2)) huge.safetensors 2>/dev/null; then
    head='{"k":{"dtype":"F16","shape":[2147483648,1,1],"data_offsets":[0,4294967296]},"v":{"dtype":"F16","shape":[2147483648,1,1],"data_offsets":[4294967296,8589934592]}}'
    while [ $((${#head} % 8)) -ne 0 ]; do head="$head "; done
    truncate -s $((8 + ${#head} + 8589934592)) huge.safetensors
    # shellcheck disable=SC2059
    printf "$(printf '\\x%02x\\0\\0\\0\\0\\0\\0\\0' ${#head})$head" | dd of=huge.safetensors conv=notrunc status=none
    exits 2 "codec refuses 2^31 tokens" codec -m RTN_INT4 -i huge.safetensors -o out.safetensors
    says "the error has the limit of tokens" '2147483648 tokens.*2147483647'
    rm -f huge.safetensors
else
    skip "codec refuses 2^31 tokens" "no sparse files here"
fi
exits 2 "codec refuses a layer index beyond the last layer" codec -m RTN_INT4 -i kv.safetensors -o out.safetensors -O layers=4 -O layer=4
exits 2 "codec refuses an option that the method lacks" codec -m RTN_INT4 -i kv.safetensors -o out.safetensors -O bitz=3
says "the error names the unknown option" 'bitz'
exits 2 "codec needs an input" codec -m RTN_INT4 -o out.safetensors
exits 2 "codec refuses a missing file" codec -m RTN_INT4 -i nowhere.safetensors -o out.safetensors

# --draw makes pseudorandom keys and values that are the same on every machine and with every instruction set.
exits 0 "codec --draw" codec -m KIVI_INT2 --draw 288x2x64 -O tokens_per_frame=144 -O frames_per_chunk=1 --json
json "codec --draw prints the hash of the stored bytes" '.tokens == 288 and (.stored_sha256 | test("^[0-9a-f]{64}$"))'
drawn=$(jq -r .stored_sha256 "$out")
for isa in portable avx2 avx512; do
    if KVREEL_CPU=$isa "$kvreel" version >/dev/null 2>&1; then
        KVREEL_CPU=$isa exits 0 "--draw, $isa" codec -m KIVI_INT2 --draw 288x2x64 \
            -O tokens_per_frame=144 -O frames_per_chunk=1 --json
        json "--draw stores the same bytes with $isa" ".stored_sha256 == \"$drawn\""
    else
        skip "--draw, $isa" "this CPU does not have $isa"
    fi
done
exits 0 "codec --draw with group=24" codec -m KIVI_INT2 --draw 288x2x64 -O tokens_per_frame=144 \
    -O frames_per_chunk=1 -O group=24 --json
json "another group size stores other bytes" ".stored_sha256 != \"$drawn\""
for shape in 288x2 0x2x64 288x2x64x1 288x2x-64 x; do
    exits 2 "codec refuses --draw $shape" codec -m KIVI_INT2 --draw "$shape"
    says "the error for --draw $shape has the syntax" 'need TOKENSxHEADSxDIM'
done
exits 2 "codec refuses --draw together with --in" codec -m KIVI_INT2 --draw 288x2x64 -i kv.safetensors

# An emulated device writes the same bytes as the CPU. A device that this build lacks is refused.
exits 2 "codec refuses an unknown device" codec -m RTN_INT4 -i kv.safetensors -o out.safetensors --device gpu
says "the error lists the devices" "unknown device 'gpu', need cpu, cuda or emulated"
emulates "an emulated device" || exit 0
for m in RTN_INT4 KIVI_INT2@study QUAROT_KV_INT4 PRQ_INT2 QAQ_INT2 FLOWCACHE_SOFT_PRUNE_INT4; do
    settings=(-m "$m" -i kv.safetensors -O tokens_per_frame=10 -O layers=4)
    exits 0 "$m on the CPU" codec "${settings[@]}" -o cpu.safetensors
    exits 0 "$m on an emulated device" codec "${settings[@]}" -o emulated.safetensors \
        --device emulated --json
    json "$m: codec --json names the device" '.device == "emulated"'
    check "$m: the CPU and the emulated device write the same bytes" cmp cpu.safetensors emulated.safetensors
done
exits 2 "codec refuses --device cuda in a build without CUDA" codec -m RTN_INT4 -i kv.safetensors -o out.safetensors --device cuda
says "the error names make CUDA=1" 'has only emulated kernels.*make CUDA=1.*--device cpu'
KVREEL_EMULATED_BYTES=20000 exits 1 "codec runs out of memory on a device of 20,000 bytes" codec -m RTN_INT4 -i kv.safetensors \
    -o out.safetensors --device emulated
says "the error has requested and available bytes" 'out of memory: [0-9]+ bytes requested, but only [0-9]+ of 20000 bytes are free'
