#!/usr/bin/env bash
# The commands of README.md run in their order, in a fresh clone.
# long: runs a sweep and draws its tables and figures.
. tests/cli/lib.sh || exit 1
. tests/cli/walk.sh || exit 1

clone=$work/kvreel
make_clone "$clone"
blocks_of README.md "$work/yaml" yaml
check "README.md shows configs/first.yaml" diff "$work"/yaml/* configs/first.yaml
walk "$clone" README README.md plain
left_clean "$clone" README
cd "$clone" || exit 1
check "the sweep was measured" test "$(sql kvreel.db "SELECT count(*) FROM cell WHERE outcome = 'OK'")" -ge 16

# The queries of README.md find rows.
blocks_of README.md "$work/queries" plain
n=0
rows() { # COMMAND: its output has lines, and no message reports 0 rows
    bash -c "$1" >"$out" 2>"$err" && test -s "$out" && ! grep -q ' 0 rows' "$err"
}
while IFS= read -r -d '' line; do
    n=$((n + 1))
    check "a query of README.md finds rows: $(head -n 1 <<<"$line")" rows "$line"
done < <(cat "$work"/queries/* | awk '/^build\/kvreel query/ { on = 1 } on { text = text $0 "\n" }
    on && gsub(/"/, "\"", text) % 2 == 0 { printf "%s%c", text, 0; text = ""; on = 0 }')
check "README.md has at least three queries" test "$n" -ge 3
check "the output files that README.md names exist" ls out/look/sheet.png out/look/worst.png out/site/index.html out/figures

# README.md links every page of docs/ exactly once.
sed -n '/^## Read on/,$p' README.md | grep -o '(docs/[^)]*)' | sort >"$work/linked"
check "README.md links every page of docs/ once" diff "$work/linked" <(ls docs/*.md | sed 's/.*/(&)/' | sort)
