#!/usr/bin/env bash
# Every command that opens a file named by the user refuses a FIFO without a writer, a folder and an endless device.
# It does so at once, names the file and does not change it.
. tests/cli/lib.sh || exit 1
cd "$work" || exit 1
cat >c.yaml <<'YAML'
question: is there anything to wait for?
model: nano
suite: {suite: moviegen-nano, prompts: 1}
methods: [BF16, RTN_INT4]
frames: 3
YAML
ask() { timeout -k 1 20 "$kvreel" "$@" >"$out" 2>"$err" </dev/null; }
ask generate -n 3 -q -o g -p 'a large red disc bounces over a plain blue background' || fail "a video: $(cat "$err")"
video=$(echo g/*.safetensors)
ask run c.yaml --db good.db -o good -q || fail "a database: $(cat "$err")"
echo '{}' >r.json
echo 'a small dog runs' >prompt.txt

# In these commands, X stands for the file. A command that accepts a folder must refuse a_folder, because the folder
# is empty.
anything=(
    "run X --dry-run"
    "run c.yaml --db X -o o"
    "run c.yaml --dry-run --costs X"
    "run c.yaml --dry-run -s plugins=[X]"
    "run c.yaml --dry-run -s suite=[{\"suite\":\"moviegen-nano\",\"file\":\"X\"}]"
    "submit slurm X --shards 2"
    "query --db X SELECT"
    "fsck X"
    "merge X -o all.db"
    "merge good.db -o X"
    "compare X $video"
    "compare $video X"
    "compare X.mp4 $video"
    "sheet s.png X"
    "sheet s.png --db X -m RTN_INT4"
    "codec -m RTN_INT4 -i X -o o.safetensors"
    "report --db X -t summary"
    "stats paired --db X"
    "stats runs --db good.db --before X"
    "pareto --db X"
    "plot --db X -o p"
    "status --db X"
    "score psnr --db X -o good"
    "claims X --db good.db"
    "claims --db X"
    "settle prq4-prq2 --db X"
    "settle prq4-prq2 --ledger X"
    "import vbench X --db good.db"
    "import vbench r.json --db X"
    "embed -p X --encoder $video --tokenizer $video -o pack"
    "embed -p prompt.txt --encoder X --tokenizer X -o pack"
    "fit --memory 1GiB --geometry X"
    "predict -m RTN_INT4 --geometry X --frames 3"
    "predict -m FORCING_KV --geometry nano --frames 12 -O map=X"
    "predict -m FLOWCACHE_PRUNE_INT4 --geometry nano --frames 12 -O layer_budget=X"
    "generate --truth X -n 6 --given 3 -p PROMPT"
    "generate --model X -p PROMPT"
    "engine check X"
    "model check X"
    "nll X $video"
    "nll $root/models/nano X"
    "profile --model X"
    "profile --suite X"
    "reproduce jensen --db X"
    "trace check X"
    "trace record t.kvtrace --model $root/tests/fixtures/lm --licence none --tokens X --tensor a"
    "trace synth t.kvtrace --like X"
    "vocabulary --model X"
    "--plugin X list methods"
)
is_fifo() { [ -p "$1" ]; }
is_folder() { [ -d "$1" ]; }
is_device() { [ -c "$1" ]; }
mkfifo a_fifo a_fifo.mp4
mkdir a_folder a_folder.mp4
ln -s /dev/zero a_device
ln -s /dev/zero a_device.mp4
for kind in fifo folder device; do
    wrong=''
    for words in "${anything[@]}"; do
        [[ $kind != folder || $words != "merge X -o all.db" ]] || continue # a folder without shards
        read -ra call <<<"${words//X/a_$kind}"
        call=("${call[@]/PROMPT/a large red disc bounces over a plain blue background}")
        ask "${call[@]}"
        rc=$?
        if [ $rc -eq 0 ] || [ $rc -ge 75 ] || ! grep -q "a_$kind\|/dev/zero" "$err"; then
            wrong+="  exit $rc: ${call[*]}: $(tail -n 1 "$err")"$'\n'
        fi
    done
    check "${#anything[@]} commands refuse a $kind and name it" test -z "$wrong"
    printf '%s' "$wrong"
    check "the $kind is unchanged" "is_$kind" "a_$kind"
done

# No option names kvreel's preferences and its cache file, but kvreel also opens these two files.
mkdir -p etc/kvreel cache/kvreel
mkfifo etc/kvreel/config.yaml cache/kvreel/remembered
XDG_CONFIG_HOME=$work/etc XDG_CACHE_HOME=$work/cache ask run c.yaml --dry-run
check "kvreel does not wait for a FIFO in place of its preferences or cache file" test $? -lt 75
