#!/usr/bin/env bash
# install.sh - installs kvreel below a prefix, or uninstalls it.
#
#     tools/release/install.sh install   KVREEL CC DESTDIR PREFIX
#     tools/release/install.sh uninstall KVREEL CC DESTDIR PREFIX
#
# PREFIX/share/kvreel/installed.txt lists all installed files and new folders. uninstall removes only these,
# so it also works from the sources of another version. Run the script from the repository's root. It first
# collects all files in a temporary folder, so that a failure before the last step leaves the prefix
# unchanged.
set -euo pipefail

verb=$1 kvreel=$2 cc=$3 prefix=${5%/}
to=${4%/}$prefix
list=$to/share/kvreel/installed.txt

remove() {
    local path
    [ -e "$list" ] || return 0
    # In reverse order, files come before their folder, and subfolders before their parent.
    sort -r "$list" | while IFS= read -r path; do
        case $path in
        */) rmdir "$to/$path" 2>/dev/null || true ;; # other programs may have files in it
        *) rm -f "$to/$path" ;;
        esac
    done
    [ -n "$(ls -A "$to" 2>/dev/null)" ] || rmdir -p --ignore-fail-on-non-empty "$to" 2>/dev/null || true
}

if [ "$verb" = uninstall ]; then
    [ -e "$list" ] || {
        echo "uninstall: nothing of kvreel below $to: no $list" >&2
        exit 1
    }
    remove
    exit 0
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
version=$("$kvreel" version --json | jq -r .version)

install -D -m 755 "$kvreel" "$stage/bin/kvreel"

# --- data: models, suites and published results that sweeps refer to by name
mkdir -p "$stage/share/kvreel/results"
git ls-files -z models configs results/published 2>/dev/null | grep -qz . &&
    git ls-files -z models configs results/published | xargs -0 cp --parents -t "$stage/share/kvreel" ||
    cp -r --parents models configs results/published "$stage/share/kvreel"

# --- headers: all that the plug-in example includes, directly and indirectly
mkdir -p "$stage/include/kvreel"
"$cc" -MM -I. -D_GNU_SOURCE -std=c17 examples/plugin/center.c | tr -d '\\' | tr ' ' '\n' | grep '\.h$\|\.def$' | sort -u |
    xargs cp --parents -t "$stage/include/kvreel"

# --- the library for other languages, its header, and a pkg-config file
library=$(dirname "$kvreel")/libkvreel.so
[ -s "$library" ] || {
    echo "install: no $library: make lib" >&2
    exit 1
}
soname=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
install -D -m 644 "$library" "$stage/lib/$soname"
ln -s "$soname" "$stage/lib/libkvreel.so"
cp harness/abi/kvreel.h "$stage/include/kvreel/kvreel.h"
mkdir -p "$stage/lib/pkgconfig"
cat >"$stage/lib/pkgconfig/kvreel.pc" <<PC
prefix=$prefix
exec_prefix=\${prefix}
libdir=\${prefix}/lib
includedir=\${prefix}/include/kvreel
datadir=\${prefix}/share/kvreel

Name: kvreel
Description: kvreel's methods as a library; headers for plug-ins, whose symbols are the program's own
Version: $version
Libs: -L\${libdir} -lkvreel
Cflags: -I\${includedir} -D_GNU_SOURCE -std=c17
PC

# --- manual, shell completion, documents, licence
man=$stage/share/man/man1
mkdir -p "$man"
"$kvreel" man >"$man/kvreel.1"
"$kvreel" completion --values commands | while read -r command; do
    "$kvreel" man "$command" >"$man/kvreel-$command.1"
done
completion() { # SHELL FILE
    mkdir -p "$(dirname "$stage/share/$2")"
    "$kvreel" completion "$1" >"$stage/share/$2"
}
completion bash bash-completion/completions/kvreel
completion zsh zsh/site-functions/_kvreel
completion fish fish/vendor_completions.d/kvreel.fish
doc=$stage/share/doc/kvreel
mkdir -p "$doc"
cp -r --parents README.md LICENSE docs methods/SKELETON.md examples/plugin/center.c "$doc"

# --- copy everything to the prefix
remove # an earlier version
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f ! -path "$stage/bin/*" -exec chmod 644 {} +
(cd "$stage" && find . -mindepth 1 -type d -printf '%P/\n' | sort) | while IFS= read -r dir; do
    [ -d "$to/$dir" ] || echo "$dir"
done >"$stage/dirs"
(cd "$stage" && find . \( -type f -o -type l \) ! -name dirs -printf '%P\n' | sort) >"$stage/files"
mkdir -p "$to"
(cd "$stage" && tar cf - --owner=0 --group=0 --exclude=./dirs --exclude=./files .) | (cd "$to" && tar xf - --no-same-owner)
{ cat "$stage/dirs" "$stage/files" && echo share/kvreel/installed.txt; } >"$stage/list"
install -m 644 "$stage/list" "$list"
echo "kvreel $version is below $to"
