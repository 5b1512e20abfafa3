#!/usr/bin/env bash
# psnr and ssim_ffmpeg against FFmpeg's own psnr and ssim filters, on lossless RGB.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1

# The filters print six decimals, and their ssim multiplies in single precision.
tolerance=1e-4

if ! command -v ffmpeg >/dev/null || ! ffmpeg -hide_banner -filters 2>/dev/null | grep -q ' ssim '; then
    skip "agreement with FFmpeg's filters" "no ffmpeg with psnr and ssim here"
    exit 0
fi

# make SOURCE FILTER NAME: twelve frames of a test picture as planes of 8-bit RGB.
make() {
    ffmpeg -v error -f lavfi -i "$1" -frames:v 12 -vf "$2,format=gbrp" -c:v ffv1 -pix_fmt gbrp \
        -y "$3.mkv"
}

# filter NAME WORD: the number behind WORD that the filter prints for test.mkv against ref.mkv.
# Without vector code: FFmpeg 5.1's calls any two pictures of 8x8 the same.
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
        check "psnr: $psnr" near "$psnr" "$(filter psnr average)"
        check "ssim: $ssim" near "$ssim" "$(filter ssim All)"
    done
done

# The check itself can fail.
if near 0.5 0.5002 || near "" 0.5; then
    fail "numbers that are not near pass"
else
    ok "numbers that are not near do not pass"
fi
