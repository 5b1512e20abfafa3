#!/usr/bin/env bash
# install, uninstall and the Debian package: the installed files work in their target folder, and uninstall removes
# them.
# long: the Debian package is built twice.
. tests/cli/lib.sh || exit 1
unset KVREEL_DATA
export KVREEL_DEB_LEVEL=0 # fastest compression, because the test does not check the size
cc=${CC:-gcc}
dest=$work/dest
to=$dest/opt/kvreel

mkdir -p "$to/share/doc"
echo 'not ours' >"$to/share/doc/other"
before=$(cd "$dest" && find . | sort)
check "install" bash tools/release/install.sh install "$kvreel" "$cc" "$dest" /opt/kvreel
check "make has the goals install, uninstall, deb and dist" make -n install uninstall deb dist
for file in bin/kvreel share/kvreel/models/nano/dit.safetensors share/kvreel/configs/suites/moviegen-nano.yaml \
    share/kvreel/results/published include/kvreel/methods/plugin.h include/kvreel/kvreel.h lib/libkvreel.so lib/libkvreel.so.1 lib/pkgconfig/kvreel.pc share/man/man1/kvreel.1 \
    share/man/man1/kvreel-run.1 share/bash-completion/completions/kvreel share/zsh/site-functions/_kvreel \
    share/fish/vendor_completions.d/kvreel.fish share/doc/kvreel/LICENSE share/doc/kvreel/docs/sweeps.md; do
    check "install writes $file" test -s "$to/$file"
done
check "install writes one manual page per command" test "$(find "$to/share/man/man1" -name 'kvreel-*.1' | wc -l)" -eq \
    "$("$kvreel" completion --values commands | wc -l)"

# The installed program works in a folder without access to the sources.
mkdir "$work/away" && cd "$work/away" || exit 1
ours=$kvreel
kvreel=$to/bin/kvreel
exits 0 "the installed program lists suites" list suites --json
json "the suites are the installed files" 'length > 0 and all(.[]; .path | contains("/share/kvreel/"))'
exits 0 "the installed program generates" generate --frames 3 -q -p 'a large red disc' -o g
exits 0 "the installed program reproduces published figures" reproduce study33 --quantity compression
exits 0 "the installed program runs an installed sweep" run "$to/share/kvreel/configs/first.yaml" --set frames=3 --limit 1 -q

# A plug-in and a program compile with the flags of pkg-config.
if has pkg-config "the pkg-config file"; then
    export PKG_CONFIG_PATH=$to/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
    check "pkg-config finds kvreel" pkg-config --exists --print-errors kvreel
    check "pkg-config has the version of the program" test "$(pkg-config --modversion kvreel)" = "$("$kvreel" version --json | jq -r .version)"
    # shellcheck disable=SC2046
    check "a plug-in builds with the flags of pkg-config" "$cc" -O2 -fopenmp -shared -fPIC $(pkg-config --cflags kvreel) \
        "$to/share/doc/kvreel/examples/plugin/center.c" -o center.so
    # shellcheck disable=SC2046
    check "a program builds with the flags of pkg-config" "$cc" -O2 $(pkg-config --cflags kvreel) "$root/tests/abi/use.c" \
        $(pkg-config --libs kvreel) -lm -o use
    if [[ $ours != *build-* ]]; then
        check "the program runs with the installed library" env LD_LIBRARY_PATH="$to/lib" ./use
    fi
    case $ours in # the program and the plug-in would need the same sanitizer
    *build-*) skip "the installed program loads the plug-in" "the program was built with other flags" ;;
    *) exits 0 "the installed program loads the plug-in" --plugin ./center.so show CENTERED_INT4 ;;
    esac
fi

# A second installation changes nothing, and uninstall removes only kvreel's files.
kvreel=$ours
cd "$root" || exit 1
n=$(wc -l <"$to/share/kvreel/installed.txt")
check "install again" bash tools/release/install.sh install "$kvreel" "$cc" "$dest" /opt/kvreel
check "a second install lists the same files" test "$n" -eq "$(wc -l <"$to/share/kvreel/installed.txt")"
echo mine >"$to/share/kvreel/models/mine"
check "uninstall" bash tools/release/install.sh uninstall "$kvreel" "$cc" "$dest" /opt/kvreel
check "uninstall keeps files that are not of kvreel" test -e "$to/share/kvreel/models/mine"
rm -r "$to/share/kvreel"
check "uninstall leaves no other file" diff <(echo "$before") <(cd "$dest" && find . | sort)
check "uninstall without an installation is an error" bash -c "! bash tools/release/install.sh uninstall '$kvreel' '$cc' '$dest' /opt/kvreel"

# --- the package ----------------------------------------------------------------------------

if has dpkg-deb "the Debian package" && has dpkg-shlibdeps "the Debian package"; then
    check "deb.sh builds the package" bash tools/release/deb.sh "$kvreel" "$cc" "$(realpath -m --relative-to=. "$work/deb")"
    deb=$(find "$work/deb" -name '*.deb')
    check "there is one package file" test -s "$deb"
    check "the package depends on its linked libraries" bash -c "dpkg-deb -f '$deb' Depends | grep -q 'libsqlite3-0.*'"
    check "the package names its architecture" test "$(dpkg-deb -f "$deb" Architecture)" = "$(dpkg --print-architecture)"
    check "the licence is at the path that Debian requires" bash -c "dpkg-deb -c '$deb' | grep -q './usr/share/doc/kvreel/copyright'"
    check "all packaged files belong to root" bash -c "! dpkg-deb -c '$deb' | grep -v ' root/root '"
    check "dpkg unpacks the package" dpkg -x "$deb" "$work/root"
    (cd "$work/root" && dpkg-deb --control "$deb" "$work/control" && md5sum --quiet -c "$work/control/md5sums") >"$work/check" 2>&1 &&
        ok "the files have the checksums in md5sums" || fail "the files have the checksums in md5sums: $(head -n 3 "$work/check")"
    kvreel=$work/root/usr/bin/kvreel
    cd "$work/away" || exit 1
    exits 0 "the unpacked program runs" list models --json
    json "the unpacked program finds its models" 'any(.[]; .name == "nano" and (.path | contains("/share/kvreel/")))'
    exits 0 "the unpacked program generates" generate --frames 3 -q -p 'a large red disc' -o d
    cd "$root" || exit 1
    cp "$deb" "$work/first.deb"
    check "deb.sh builds the package again" bash tools/release/deb.sh "$ours" "$cc" "$work/deb"
    check "both packages are equal, byte for byte" cmp "$deb" "$work/first.deb"
fi

# --- the recipes ----------------------------------------------------------------------------

# This test builds no container image. It checks only that the files and make goals that tools/container names exist.
while read -r goal; do
    check "make has the goal $goal of the Containerfile" make -n "$goal"
done < <(sed -n 's/^RUN make .* \([a-z]*\)$/\1/p' tools/container/Containerfile)
check "the Containerfile copies the package of make deb" grep -q '^COPY --from=build /src/build/deb/' tools/container/Containerfile
if python_has yaml "the workflow is YAML with steps"; then
    check "the workflow is YAML with steps" "$python" -c "
import yaml, subprocess
w = yaml.safe_load(open('tools/container/workflow.yml'))
steps = [s['run'] for s in w['jobs']['test']['steps'] if 'run' in s]
assert len(steps) > 4
for s in steps:
    if s.startswith('make'):
        subprocess.run(['make', '-n', s.split()[-1]], check=True, stdout=subprocess.DEVNULL)
"
fi
