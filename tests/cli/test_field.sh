#!/usr/bin/env bash
# Files as other systems and templating tools save them, and names as people write them.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
mark=$'\xef\xbb\xbf'
plan() { exits 0 "$1" run "$2" --db p.db --dry-run; }

# A byte order mark of UTF-8 before every kind of text that is read.
mkdir -p configs/suites
tiny_config plain.yaml
{ printf %s "$mark"; cat plain.yaml; } >bom.yaml
plan "a config with a byte order mark" bom.yaml
printf '%sname: marked\nprompts:\n  - {id: red, text: a large red disc drifts right over a plain blue background}\n' "$mark" \
    >configs/suites/marked.yaml
printf '%sa large red disc drifts right over a plain blue background\n' "$mark" >list.txt
sed '/^prompts:/,/green/d' plain.yaml >base.yaml
{ cat base.yaml; echo 'suite: marked'; } >suite.yaml
plan "a suite with one" suite.yaml
{ cat base.yaml; echo 'suite: {suite: listed, file: list.txt}'; } >listed.yaml
plan "a list of prompts with one" listed.yaml
printf '%s1.1\n0.9\n1.0\n1.0\n' "$mark" >layers.txt
for encoding in UTF-16LE UTF-16BE UTF-32LE UTF-32BE; do
    { printf %s "$mark"; cat plain.yaml; } | iconv -f UTF-8 -t "$encoding" >wide.yaml
    exits 2 "$encoding is refused" run wide.yaml --dry-run
    says "$encoding is named" "wide.yaml: ${encoding%?E} text .* save it as UTF-8"
done

# Everything in quotes.
sed 's/^frames: 6/frames: "6"\nwindow: ["6", "0"]\nseed: "1"\nrepeats: '"'2'"'\nevict: "false"/' plain.yaml >quoted.yaml
plan "numbers and truth values in quotes" quoted.yaml
cp "$out" quoted.out
sed 's/^frames: 6/frames: 6\nwindow: [6, 0]\nseed: 1\nrepeats: 2\nevict: false/' plain.yaml >bare.yaml
plan "the same without" bare.yaml
check "mean the same" diff "$out" quoted.out

# A key for anchors.
sed 's/^frames: 6/frames: *f/; 1i x-common: &f [6]\nx-more: {a: 1}' plain.yaml >anchors.yaml
plan "keys that begin with x-" anchors.yaml

# A model folder in the working directory, by its bare name; one in models/ goes first.
cp -r "$root/models/nano" mine
sed 's/^model: nano/model: mine/' plain.yaml >mine.yaml
plan "a model folder in the working directory" mine.yaml
mkdir -p elsewhere && cp mine.yaml elsewhere/ && cp -r mine elsewhere/beside
sed -i 's/^model: mine/model: beside/' elsewhere/mine.yaml
plan "one beside the config" elsewhere/mine.yaml
exits 0 "for predict" predict -m RTN_INT4 --geometry mine --frames 6
exits 0 "for generate" generate -M mine -m RTN_INT4 -n 3 -p 'a red disc' -o g.mp4
sed 's/^model: nano/model: absent/' plain.yaml >absent.yaml
exits 2 "no such folder" run absent.yaml --dry-run
says "says where it looked" 'and for ./absent/config.json|did you mean'
