#!/usr/bin/env bash
# install, uninstall and the Debian package: the installed files work in their place, and uninstall removes them.
# long: a package is built twice.
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
check "make has the goals" make -n install uninstall deb dist
for file in bin/kvreel share/kvreel/models/nano/dit.safetensors share/kvreel/configs/suites/moviegen-nano.yaml \
    share/kvreel/results/published include/kvreel/methods/plugin.h include/kvreel/kvreel.h lib/libkvreel.so lib/libkvreel.so.1 lib/pkgconfig/kvreel.pc share/man/man1/kvreel.1 \
    share/man/man1/kvreel-run.1 share/bash-completion/completions/kvreel share/zsh/site-functions/_kvreel \
    share/fish/vendor_completions.d/kvreel.fish share/doc/kvreel/LICENSE share/doc/kvreel/docs/sweeps.md; do
    check "there is $file" test -s "$to/$file"
done
check "a page per command" test "$(find "$to/share/man/man1" -name 'kvreel-*.1' | wc -l)" -eq \
    "$("$kvreel" completion --values commands | wc -l)"

# The installed program works in a folder without access to the sources.
mkdir "$work/away" && cd "$work/away" || exit 1
ours=$kvreel
kvreel=$to/bin/kvreel
exits 0 "it lists suites" list suites --json
json "of the place it was put" 'length > 0 and all(.[]; .path | contains("/share/kvreel/"))'
exits 0 "it generates" generate --frames 3 -q -p 'a large red disc' -o g
exits 0 "it reproduces" reproduce study33 --quantity compression
exits 0 "it runs a sweep that came with it" run "$to/share/kvreel/configs/first.yaml" --set frames=3 --limit 1 -q

# A plug-in and a program compile with the flags of pkg-config.
if has pkg-config "what pkg-config knows"; then
    export PKG_CONFIG_PATH=$to/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
    check "pkg-config reads it" pkg-config --exists --print-errors kvreel
    check "it has the program's version" test "$(pkg-config --modversion kvreel)" = "$("$kvreel" version --json | jq -r .version)"
    # shellcheck disable=SC2046
    check "a plug-in builds" "$cc" -O2 -fopenmp -shared -fPIC $(pkg-config --cflags kvreel) \
        "$to/share/doc/kvreel/examples/plugin/center.c" -o center.so
    # shellcheck disable=SC2046
    check "a program of the library builds" "$cc" -O2 $(pkg-config --cflags kvreel) "$root/tests/abi/use.c" \
        $(pkg-config --libs kvreel) -lm -o use
    if [[ $ours != *build-* ]]; then
        check "and runs" env LD_LIBRARY_PATH="$to/lib" ./use
    fi
    case $ours in # the program and the plug-in would need the same sanitizer
    *build-*) skip "the plug-in is loaded" "the program was built with other flags" ;;
    *) exits 0 "and is loaded" --plugin ./center.so show CENTERED_INT4 ;;
    esac
fi

# A second installation changes nothing, and uninstall removes only kvreel's files.
kvreel=$ours
cd "$root" || exit 1
n=$(wc -l <"$to/share/kvreel/installed.txt")
check "installing again" bash tools/release/install.sh install "$kvreel" "$cc" "$dest" /opt/kvreel
check "changes nothing" test "$n" -eq "$(wc -l <"$to/share/kvreel/installed.txt")"
echo mine >"$to/share/kvreel/models/mine"
check "uninstall" bash tools/release/install.sh uninstall "$kvreel" "$cc" "$dest" /opt/kvreel
check "keeps what is not its own" test -e "$to/share/kvreel/models/mine"
rm -r "$to/share/kvreel"
check "and leaves nothing else" diff <(echo "$before") <(cd "$dest" && find . | sort)
check "uninstall of nothing is an error" bash -c "! bash tools/release/install.sh uninstall '$kvreel' '$cc' '$dest' /opt/kvreel"

# --- the package ----------------------------------------------------------------------------

if has dpkg-deb "the Debian package" && has dpkg-shlibdeps "the Debian package"; then
    check "the package is built" bash tools/release/deb.sh "$kvreel" "$cc" "$(realpath -m --relative-to=. "$work/deb")"
    deb=$(find "$work/deb" -name '*.deb')
    check "it is one file" test -s "$deb"
    check "it names the libraries it is linked with" bash -c "dpkg-deb -f '$deb' Depends | grep -q 'libsqlite3-0.*'"
    check "and the architecture" test "$(dpkg-deb -f "$deb" Architecture)" = "$(dpkg --print-architecture)"
    check "its licence is where Debian looks" bash -c "dpkg-deb -c '$deb' | grep -q './usr/share/doc/kvreel/copyright'"
    check "files are root's" bash -c "! dpkg-deb -c '$deb' | grep -v ' root/root '"
    check "it unpacks" dpkg -x "$deb" "$work/root"
    (cd "$work/root" && dpkg-deb --control "$deb" "$work/control" && md5sum --quiet -c "$work/control/md5sums") >"$work/check" 2>&1 &&
        ok "with the sums it says" || fail "with the sums it says: $(head -n 3 "$work/check")"
    kvreel=$work/root/usr/bin/kvreel
    cd "$work/away" || exit 1
    exits 0 "the program runs from there" list models --json
    json "with its models" 'any(.[]; .name == "nano" and (.path | contains("/share/kvreel/")))'
    exits 0 "and generates" generate --frames 3 -q -p 'a large red disc' -o d
    cd "$root" || exit 1
    cp "$deb" "$work/first.deb"
    check "built again" bash tools/release/deb.sh "$ours" "$cc" "$work/deb"
    check "it is the same, byte for byte" cmp "$deb" "$work/first.deb"
fi

# --- the recipes ----------------------------------------------------------------------------

# The recipes build no image in this test; only the files and goals that they name are checked.
while read -r goal; do
    check "the Containerfile's goal $goal" make -n "$goal"
done < <(sed -n 's/^RUN make .* \([a-z]*\)$/\1/p' tools/container/Containerfile)
check "it copies what make deb makes" grep -q '^COPY --from=build /src/build/deb/' tools/container/Containerfile
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
