#!/usr/bin/env bash
# The commands of CONTRIBUTING.md and docs/ run in their order, in a fresh clone that has a sweep's results.
# long: every document.
. tests/cli/lib.sh || exit 1
. tests/cli/walk.sh || exit 1

clone=$work/kvreel
make_clone "$clone"
"$clone/build/kvreel.real" run configs/first.yaml --db "$clone/kvreel.db" --out "$clone/out" --set frames=6 \
    --filter 'prompt=mg01 & method~INT4|BF16' -q >"$out" 2>"$err" || fail "the sweep they begin with runs"
cp "$clone/kvreel.db" "$clone.bin/shard.db"
# Replacements for the weights that docs/weights.md names.
cp tests/fixtures/pt/good.pt "$clone/self_forcing_dmd.pt"
cp -r tests/fixtures/wan_tiny "$clone/Wan2.1-T2V-1.3B"
git -C "$clone" add -A
git -C "$clone" -c user.name=walk -c user.email=walk@localhost commit -q -m "and others' files"

# An installed kvreel, as docs/install.md describes.
bash tools/release/install.sh install "$kvreel" "${CC:-gcc}" "" "$clone.bin/prefix" >"$out" 2>&1 || fail "kvreel can be installed"
export PKG_CONFIG_PATH=$clone.bin/prefix/lib/pkgconfig

walk "$clone" CONTRIBUTING CONTRIBUTING.md plain
for doc in docs/*.md; do
    case $doc in
    docs/architecture.md) continue ;; # its blocks are drawings
    docs/decisions.md) continue ;; # its blocks are drawings
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
check "there are sweeps" test "$n" -ge 2
