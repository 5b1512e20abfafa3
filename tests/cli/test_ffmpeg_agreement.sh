#!/usr/bin/env bash
# psnr and ssim_ffmpeg agree with FFmpeg's psnr and ssim filters, on lossless RGB video.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

# Tolerance: the filters print six decimals, and the ssim filter computes in single precision.
tolerance=1e-4

if ! command -v ffmpeg >/dev/null || ! ffmpeg -hide_banner -filters 2>/dev/null | grep -q ' ssim '; then
    skip "agreement with FFmpeg's filters" "no ffmpeg with psnr and ssim here"
    exit 0
fi

# make SOURCE FILTER NAME: writes twelve frames of a test picture, as 8-bit planar RGB, to NAME.mkv.
make() {
    ffmpeg -v error -f lavfi -i "$1" -frames:v 12 -vf "$2,format=gbrp" -c:v ffv1 -pix_fmt gbrp \
        -y "$3.mkv"
}

# filter NAME WORD: prints the number after WORD in the filter's output for test.mkv and ref.mkv. SIMD is disabled,
# because the SIMD code of FFmpeg 5.1's filters reports that any two 8x8 pictures are equal.
filter() {
    ffmpeg -cpuflags 0 -nostdin -v info -i test.mkv -i ref.mkv -lavfi "[0:v][1:v]$1" -f null - 2>&1 |
        sed -n "s/.*$2:\([-0-9.]*\).*/\1/p" | tail -n 1
}

near() { # A B
    awk -v a="$1" -v b="$2" -v t=$tolerance \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= t) }'
}

for size in 8x8 64x48 101x75; do
    for damage in noise=alls=20:allf=t gblur=sigma=2 negate; do
        make "testsrc2=size=$size:rate=12" null ref
        make "testsrc2=size=$size:rate=12" "format=gbrp,$damage" test
        exits 0 "compare, $size, $damage" compare ref.mkv test.mkv -m psnr,ssim_ffmpeg --json
        psnr=$(jq .psnr_db "$out")
        ssim=$(jq .ssim_ffmpeg "$out")
        check "psnr of $size, $damage: $psnr" near "$psnr" "$(filter psnr average)"
        check "ssim of $size, $damage: $ssim" near "$ssim" "$(filter ssim All)"
    done
done

# near() must reject two different numbers, and an empty string.
if near 0.5 0.5002 || near "" 0.5; then
    fail "numbers that are not near pass"
else
    ok "numbers that are not near do not pass"
fi

# --- rotation and flips ------------------------------------------------------------------------

# upright NAME: decodes NAME.mp4 as FFmpeg displays it, and writes the frames to NAME-shown.mkv without loss.
upright() { ffmpeg -v error -i "$1.mp4" -c:v ffv1 -pix_fmt gbrp -y "$1-shown.mkv"; }
ffmpeg -v error -f lavfi -i testsrc2=size=64x48:rate=12 -frames:v 6 -c:v libx264 -qp 0 -pix_fmt yuv444p -y plain.mp4
if [ -s plain.mp4 ]; then
    for angle in 90 180 270; do
        ffmpeg -v error -i plain.mp4 -c copy -metadata:s:v:0 rotate=$angle -y "turned.mp4"
        upright turned
        ffmpeg -v error -i plain.mp4 -f rawvideo -y plain.raw
        ffmpeg -v error -i turned.mp4 -f rawvideo -y turned.raw
        if cmp -s plain.raw turned.raw; then
            skip "a video rotated by $angle degrees" "this ffmpeg writes no display matrix"
            continue
        fi
        exits 0 "a video rotated by $angle degrees" compare turned.mp4 turned-shown.mkv --json
        json "a video rotated by $angle is compared as displayed" '.psnr_db > 45'
        if "$kvreel" compare plain.mp4 turned.mp4 --json >"$out" 2>"$err"; then
            json "its displayed frames differ from its stored frames ($angle)" '.psnr_db < 30'
        else
            says "its displayed size differs from its stored size ($angle)" '48x64|64x48'
        fi
    done
    # First, an SEI message of the video stream specifies a horizontal flip. Then the container's display matrix is
    # not a rotation by a multiple of 90 degrees.
    if ffmpeg -v error -i plain.mp4 -c copy -bsf:v h264_metadata=display_orientation=insert:flip=horizontal -y flipped.mp4; then
        ffmpeg -v error -i plain.mp4 -vf hflip -c:v ffv1 -pix_fmt gbrp -y mirrored.mkv
        exits 0 "a video with a flip in its SEI message" compare flipped.mp4 mirrored.mkv --json
        json "the flipped video is compared as displayed" '.psnr_db > 45'
    fi
    cp turned.mp4 odd.mp4
    python3 - odd.mp4 <<'PY'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(b"tkhd") + 44  # offset of the matrix in a track header of version 0
data[at:at + 4] = struct.pack(">i", 32768)
open(sys.argv[1], "wb").write(data)
PY
    exits 2 "a video whose display matrix is no rotation is refused" compare plain.mp4 odd.mp4
    says "the error has the display matrix" 'display matrix 0.5 .*rotate the frames first'
    ffmpeg -v error -i plain.mp4 -c copy -aspect 16:9 -y wide.mp4
    exits 2 "videos of different pixel aspect ratios are refused" compare plain.mp4 wide.mp4
    says "the error has both pixel aspect ratios" 'plain.mp4 has a pixel aspect ratio of 1:1, but wide.mp4 has 4:3'
    exits 0 "videos of equal pixel aspect ratios are compared" compare wide.mp4 wide.mp4
else
    skip "display matrices" "this ffmpeg has no libx264"
fi

# --- a Matroska file's crop --------------------------------------------------------------------

# crop FILE NTH TOP BOTTOM LEFT RIGHT: replaces the NTH track's colour element by crop elements of the same length.
crop() {
    python3 - "$@" <<'PY'
import sys
path, nth, *sides = sys.argv[1], *map(int, sys.argv[2:])
data = bytearray(open(path, "rb").read())
at = data.index(bytes.fromhex("1654ae6b"))
for _ in range(nth + 1):
    at = data.index(bytes.fromhex("55b090"), at + 1)
ids = 0x54BB, 0x54AA, 0x54CC, 0x54DD
new = b"".join(i.to_bytes(2, "big") + bytes([0x81, n]) for i, n in zip(ids, sides))
data[at:at + 19] = new + b"\xec\x81\0"
open(path, "wb").write(data)
PY
}
colour="-color_primaries bt709 -color_trc bt709 -colorspace bt709 -color_range tv -write_crc32 0"
source="-v error -f lavfi -i testsrc2=size=64x48:rate=12 -frames:v 6"
# shellcheck disable=SC2086
ffmpeg $source $colour -c:v ffv1 -pix_fmt yuv444p -y tagged.mkv
cp tagged.mkv whole.mkv
crop whole.mkv 0 0 0 0 0
for sides in "4 0 0 0" "0 6 0 0" "0 0 3 0" "0 0 0 8" "4 2 6 1"; do
    read -r top bottom left right <<<"$sides"
    cp tagged.mkv cropped.mkv
    crop cropped.mkv 0 "$top" "$bottom" "$left" "$right"
    ffmpeg -v error -i whole.mkv -vf "crop=$((64 - left - right)):$((48 - top - bottom)):$left:$top" -c:v ffv1 -y shown.mkv
    exits 0 "a Matroska video cropped by $sides" compare shown.mkv cropped.mkv --json
    json "the crop $sides is applied" '.psnr_db == 100'
    exits 2 "the crop $sides changes the size of the frames" compare whole.mkv cropped.mkv
    says "the error has the size after the crop $sides" "64x48.*test video has 6 of $((64 - left - right))x$((48 - top - bottom))"
done
cp tagged.mkv cropped.mkv
crop cropped.mkv 0 24 24 0 0
exits 2 "a crop that leaves no pixel is refused" compare whole.mkv cropped.mkv
says "the error has the file and the sides of the crop" 'cropped.mkv: the crop in the header .24 top, 24 bottom, 0 left, 0 right. leaves no pixel of 64x48'
# The crop is also found in a segment of unknown size, and in the second of two tracks.
# shellcheck disable=SC2086
ffmpeg $source $colour -c:v ffv1 -pix_fmt yuv444p -f matroska - >stream.mkv
crop stream.mkv 0 4 2 6 1
ffmpeg -v error -i whole.mkv -vf crop=57:42:6:4 -c:v ffv1 -y shown.mkv
exits 0 "a cropped Matroska stream of unknown length" compare shown.mkv stream.mkv --json
json "the crop of the stream is applied" '.psnr_db == 100'
# shellcheck disable=SC2086
ffmpeg -v error -f lavfi -i testsrc2=size=16x16:rate=12:duration=0.5 -i whole.mkv -map 0 -map 1 $colour -c:v ffv1 -pix_fmt yuv444p \
    -disposition:v:0 0 -disposition:v:1 default -y both.mkv
crop both.mkv 1 4 2 6 1
exits 0 "a crop in the second of two tracks" compare shown.mkv both.mkv --json
json "the crop of the second track is applied" '.psnr_db == 100'
# The display size applies to the cropped picture.
ffmpeg -v error -i tagged.mkv -c copy -aspect 16:9 -write_crc32 0 -y wide.mkv
crop wide.mkv 0 0 0 32 0
exits 2 "a cropped video with another pixel aspect ratio is refused" compare whole.mkv wide.mkv
says "the error has the pixel aspect ratio after the crop" 'wide.mkv has (8:3|85:32)'

# --- an MP4 file's clean aperture --------------------------------------------------------------

# aperture FILE TERM...: appends a clap box with these terms to the video's sample entry. The chunk offsets stay
# right, because the moov box is at the file's end.
aperture() {
    python3 - "$@" <<'PY'
import struct, sys
path, terms = sys.argv[1], list(map(int, sys.argv[2:]))
data = bytearray(open(path, "rb").read())
clap = struct.pack(">I4s8i", 40, b"clap", *terms)
for name in b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1":
    at = data.index(name, data.index(b"moov")) - 4
    size, = struct.unpack_from(">I", data, at)
    struct.pack_into(">I", data, at, size + 40)
data[at + size:at + size] = clap
open(path, "wb").write(data)
PY
}
if [ -s plain.mp4 ]; then
    # Each input line has the arguments of FFmpeg's crop filter and the equivalent clap terms. Positive clap offsets
    # move the aperture's centre right and down.
    while read -r box terms; do
        cp plain.mp4 clean.mp4
        # shellcheck disable=SC2086
        aperture clean.mp4 $terms
        ffmpeg -nostdin -v error -i plain.mp4 -vf "crop=$box:exact=1" -c:v ffv1 -y shown.mkv
        exits 0 "a clean aperture of $box" compare shown.mkv clean.mp4 --json
        json "the clean aperture of $box is applied" '.psnr_db == 100'
    done <<'CLAPS'
64:48:0:0 64 1 48 1 0 1 0 1
60:40:2:4 60 1 40 1 0 1 0 1
57:42:6:4 57 1 42 1 5 2 1 1
32:48:0:0 64 2 48 1 -16 1 0 1
CLAPS
    while read -r terms; do
        cp plain.mp4 clean.mp4
        # shellcheck disable=SC2086
        aperture clean.mp4 $terms
        exits 2 "a clean aperture of $terms is refused" compare plain.mp4 clean.mp4
        says "the error has the clean aperture of $terms" "clean.mp4: the clean aperture of .* select whole pixels of the 64x48 frame"
    done <<'CLAPS'
61 2 48 1 0 1 0 1
57 1 48 1 0 1 0 1
64 1 48 1 2 1 0 1
64 0 48 1 0 1 0 1
CLAPS
else
    skip "clean apertures" "this ffmpeg has no libx264"
fi

# --- frames of another pixel format ------------------------------------------------------------

# Each picture of an MJPEG stream has its own pixel format.
for format in yuvj444p yuvj420p gray; do
    ffmpeg -v error -f lavfi -i testsrc2=size=64x48:rate=12 -frames:v 3 -pix_fmt $format -c:v mjpeg -f mjpeg \
        -y $format.mjpeg
done
while read -r first second; do
    cat "$first.mjpeg" "$second.mjpeg" >mixed.mjpeg
    exits 2 "a change from $first to $second is refused" compare mixed.mjpeg mixed.mjpeg
    says "the error has the frame that changes from $first to $second" \
        "mixed.mjpeg: frame 3 has another pixel format .* than earlier frames"
done <<'FORMATS'
yuvj444p yuvj420p
yuvj420p gray
FORMATS
