#!/usr/bin/env bash
# deb.sh - makes a Debian package of the built program.
#
#     tools/release/deb.sh KVREEL CC FOLDER
#
# The script writes FOLDER/kvreel_VERSION_ARCH.deb and prints its path on stdout. The package depends on the
# libraries that the program is linked with. It recommends FFmpeg's libraries, which are opened only to encode
# a video. The same sources and compiler give the same file. KVREEL_DEB_LEVEL is xz's compression level, 0 to
# 9.
set -euo pipefail

kvreel=$1 cc=$2 folder=$3
root=$folder/root
rm -rf "$root"
mkdir -p "$root/DEBIAN" "$folder/shlibs/debian"

stamp=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$stamp}
version=$("$kvreel" version --json | jq -r .version)
git=$(git rev-parse --short=10 HEAD 2>/dev/null || true)
[ -z "$git" ] || version+="+git$(git log -1 --format=%cd --date=format:%Y%m%d).$git"
arch=$(dpkg --print-architecture)

bash tools/release/install.sh install "$kvreel" "$cc" "$root" /usr >&2
rm "$root/usr/share/kvreel/installed.txt" # dpkg has its own list of installed files
strip --strip-unneeded "$root/usr/bin/kvreel" "$root"/usr/lib/libkvreel.so.*
find "$root/usr/share/man" -name '*.1' -exec gzip -9n {} +
mv "$root/usr/share/doc/kvreel/LICENSE" "$root/usr/share/doc/kvreel/copyright"
mkdir -p "$root/usr/share/zsh/vendor-completions" # Debian's zsh searches this folder
mv "$root/usr/share/zsh/site-functions/_kvreel" "$root/usr/share/zsh/vendor-completions/"
rmdir "$root/usr/share/zsh/site-functions"

printf 'Source: kvreel\n\nPackage: kvreel\nArchitecture: any\n' >"$folder/shlibs/debian/control"
program=$(realpath "$root/usr/bin/kvreel") # absolute, because the next command changes the folder
depends=$(cd "$folder/shlibs" && dpkg-shlibdeps -O "$program" 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p')
opened=$(dpkg -S libavformat.so libavcodec.so libavutil.so libswscale.so 2>/dev/null |
    sed -n 's/^\(lib[a-z]*[0-9]\+\):[^ ]* .*\.so\.[0-9.]*$/\1/p' | sort -u | paste -sd, | sed 's/,/, /g')
cat >"$root/DEBIAN/control" <<CONTROL
Package: kvreel
Version: $version
Architecture: $arch
Maintainer: the kvreel project <kvreel@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: gnuplot-nox | gnuplot${opened:+, $opened}
Suggests: ffmpeg, bubblewrap, sqlite3, jq
Section: science
Priority: optional
Description: benchmark of KV-cache compression for autoregressive video diffusion
 kvreel runs many methods of compressing the key-value cache of autoregressive
 video models over the same prompts, seeds and rollouts, counts every byte that
 is held, compares raw frames with the BF16 rollout, and keeps all of it in one
 SQLite file. A small trained video model is inside.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -depth -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz -z"${KVREEL_DEB_LEVEL:-6}" --build "$root" "$folder/kvreel_${version}_$arch.deb" >&2
echo "$folder/kvreel_${version}_$arch.deb"
