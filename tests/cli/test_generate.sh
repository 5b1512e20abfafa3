#!/usr/bin/env bash
# generate: writes a video, a contact sheet and raw frames for a prompt.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
three_threads
prompt='a large red disc drifts right over a plain blue background'

exits 0 "generate" generate -m RTN_INT4 -p "$prompt" --frames 6 --seed 3 -o g --reference --json
json "generate --json has bytes and quality" \
    '.frames == 6 and .compression > 2 and .nominal_bytes <= .resident_bytes and .ssim <= 1 and .peak_bytes > 0'
mp4=$(jq -r .video "$out")
png=$(jq -r .sheet "$out")
raw=$(jq -r .frames_file "$out")
check "the contact sheet is a PNG" bash -c "head -c 4 '$png' | grep -aq PNG"
if has ffprobe "the video is H.264"; then
    check "the video is H.264 with 6 frames" bash -c \
        "ffprobe -v error -count_frames -show_entries stream=codec_name,nb_read_frames -of csv=p=0 '$mp4' | grep -qx 'h264,6'"
fi
cp "$raw" first.safetensors
exits 0 "generate again" generate -m RTN_INT4 -p "$prompt" --frames 6 --seed 3 -o g -q
check "the same seed gives the same frames" cmp first.safetensors "$raw"
check "generate -q prints nothing to stderr" test ! -s "$err"
OMP_NUM_THREADS=1 exits 0 "generate with one thread" generate -m RTN_INT4 -p "$prompt" --frames 6 --seed 3 -o g -q
check "the number of threads does not change the frames" cmp first.safetensors "$raw"
exits 0 "generate with another seed" generate -m RTN_INT4 -p "$prompt" --frames 6 --seed 4 -o g -q --json
check "another seed gives other frames" bash -c "! cmp -s first.safetensors '$(jq -r .frames_file "$out")'"

exits 2 "generate needs a prompt" generate
exits 2 "generate refuses an unknown word" generate -p 'a large red dics drifts right over a plain blue background' --frames 6 -o g
says "the error names the word" 'dics'
exits 2 "generate refuses an unknown method" generate -m RTN_INT5 -p "$prompt" --frames 6 -o g
says "the error suggests a method" 'did you mean .RTN_INT'
exits 2 "generate refuses an unknown model" generate --model nanno -p "$prompt" -o g
says "the error suggests nano" 'nano'
exits 2 "generate refuses 7 frames, no multiple of a chunk" generate -p "$prompt" --frames 7 -o g
exits 2 "generate refuses an option that the method lacks" generate -m RTN_INT4 -O bitz=3 -p "$prompt" --frames 6 -o g
says "the error names the option" 'bitz'

# Earlier defect: a folder's name of more than 1023 bytes ended in a write beyond the buffer of the path.
long=$(printf 'd%.0s' {1..200})
exits 2 "generate refuses an output folder of 1200 bytes" generate -n 3 -q -p 'a large red disc' -o "$long/$long/$long/$long/$long/${long:5}"
says "the error states length and limit" '--out has 1200 bytes, need at most 768'
check "generate writes no file to a folder with a cut name" test ! -e "$long"
