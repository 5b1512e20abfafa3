#!/usr/bin/env bash
# The commands of CONTRIBUTING.md and of each page of docs/ run in the page's order, in a fresh clone that has the
# results of a sweep.
# long: runs the commands of all documents.
. tests/cli/lib.sh || exit 1
. tests/cli/walk.sh || exit 1

clone=$work/kvreel
make_clone "$clone"
"$clone/build/kvreel.real" run configs/first.yaml --db "$clone/kvreel.db" --out "$clone/out" --set frames=6 \
    --filter 'prompt=mg01 & method~INT4|BF16' -q >"$out" 2>"$err" || fail "the sweep whose results the documents use runs"
cp "$clone/kvreel.db" "$clone.bin/shard.db"
# Test files replace the weights that docs/weights.md names.
cp tests/fixtures/pt/good.pt "$clone/self_forcing_dmd.pt"
cp -r tests/fixtures/wan_tiny "$clone/Wan2.1-T2V-1.3B"
git -C "$clone" add -A
git -C "$clone" -c user.name=walk -c user.email=walk@localhost commit -q -m "and others' files"

# A command of docs/install.md builds a plug-in against the headers of an installed kvreel.
bash tools/release/install.sh install "$kvreel" "${CC:-gcc}" "" "$clone.bin/prefix" >"$out" 2>&1 || fail "kvreel is installed"
export PKG_CONFIG_PATH=$clone.bin/prefix/lib/pkgconfig

walk "$clone" CONTRIBUTING CONTRIBUTING.md plain
for doc in docs/*.md; do
    case $doc in
    docs/architecture.md) continue ;; # its code blocks are diagrams
    docs/decisions.md) continue ;; # its code blocks are diagrams
    docs/bring-your-own.md) continue ;; # tests/cli/test_bring_your_own.sh
    esac
    walk "$clone" "$(basename "$doc" .md)" "$doc" plain sh
    left_clean "$clone" "$doc"
done

# Complete sweeps in the documents pass a dry run.
for doc in README.md docs/*.md methods/SKELETON.md; do
    blocks_of "$doc" "$work/yaml-$(basename "$doc")" yaml
done
n=0
for sweep in "$work"/yaml-*/*; do
    grep -q '^question:' "$sweep" && grep -q '^methods:' "$sweep" || continue
    grep -q '^plugins:' "$sweep" && continue # tests/cli/test_plugin.sh builds its plug-in
    n=$((n + 1))
    cp "$sweep" "$work/sweep.yaml"
    exits 0 "a sweep of $(basename "$(dirname "$sweep")"): $(head -n 1 "$sweep")" run "$work/sweep.yaml" --dry-run --db "$work/none.db"
done
check "the documents contain at least two sweeps" test "$n" -ge 2
