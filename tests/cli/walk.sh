# shellcheck shell=bash
# walk.sh - runs the fenced commands of a document in order, in a folder like a fresh clone. Scripts source it after
# lib.sh.
#
# Only commands that would take minutes are shortened: sweeps run few cells of few frames, and a rollout has few
# frames. `make` only prints its commands. sbatch is replaced by a script that writes one shard.

# Copies the tracked files, and the program as build/kvreel, to a new git repository. left_clean can then list the new
# files that git does not ignore.
make_clone() { # FOLDER
    mkdir -p "$1/build" "$1.bin"
    git -C "$root" ls-files -z | (cd "$root" && xargs -0 tar cf -) | tar xf - -C "$1"
    cp "$kvreel" "$1/build/kvreel.real"
    cat >"$1/build/kvreel" <<'SH'
#!/usr/bin/env bash
# Runs kvreel, but shortens commands that a test cannot wait for.
real=$(dirname "$(realpath "$0")")/kvreel.real
case " $* " in
*" bench "*) exit 0 ;; # would measure for minutes; tests/cli/test_bench.sh tests it
*" settle "*) exec "$real" settle --help ;; # would run prompts for minutes; tests/cli/test_settle.sh tests it
*" run "*cost-wan-cut.yaml*) # would take hours; runs two cells of nano instead
    exec "$real" run configs/first.yaml --db out/cost-wan-cut.db --out out/cost-wan-cut --set frames=6 --limit 2 -q ;;
*" run "*partial-prefill.yaml*) # needs a model of 93 MB; reads two random texts with one of 48 KB instead
    cat >out/prefill.yaml <<YAML
name: partial-prefill
model: $PWD/tests/fixtures/lm
prompts:
  - {id: a, text: noise, tokens: {file: $PWD/tests/fixtures/lm/texts.safetensors, tensor: a}}
  - {id: b, text: noise, tokens: {file: $PWD/tests/fixtures/lm/texts.safetensors, tensor: b}}
frames: 192
chunk: 32
prefix: 32
scored: 64
metrics: [psnr]
methods: [BF16, KIVI_INT2, KIVI_INT2+taylor]
YAML
    exec "$real" run out/prefill.yaml --db out/partial-prefill.db --out out/partial-prefill -q ;;
*" embed "*) # needs a text encoder of 11 GB; tests/cli/test_wan.sh embeds with a small one
    "$real" embed --help ;;
*" import vbench FILE "* | *" score lpips "*out/corrections.db*) # these need results of Wan, so only --help runs
    exec "$real" "$1" --help ;;
*" -i KV.safetensors "*) # needs recorded keys and values, so only --help runs
    exec "$real" codec --help ;;
*" import "*wan-study33.db* | *" reproduce "*wan-study33.db*) # these need Wan's weights
    exec "$real" "$1" --help ;;
*" run "*device=cuda*) # there may be no GPU, so this is a dry run
    "$real" run configs/cost-wan.yaml --set frames=12 --dry-run ;;
*" run configs/trace.yaml "*) exec "$real" "$@" --set 'methods=[BF16, RTN_INT4]' ;;
*" run configs/first.yaml "*) exec "$real" "$@" --set frames=6 --set baselines=none ;;
*" run "*) exec "$real" "$@" --limit 1 ;;
*" generate "*) exec "$real" "$@" --frames 6 ;;
*) exec "$real" "$@" ;;
esac
SH
    # device-check.sh needs a GPU and minutes of nvcc, so a stub replaces it; tests/cli/test_device_check.sh tests it.
    printf '#!/usr/bin/env bash\n[ "$1" = --pack ] || [ "$1" = --run ]\n' >"$1/tools/device-check.sh"
    cat >"$1.bin/make" <<'SH'
#!/usr/bin/env bash
exec /usr/bin/make -n "$@" >/dev/null
SH
    cat >"$1.bin/sbatch" <<'SH'
#!/usr/bin/env bash
# Stub of sbatch: provides the first shard's database, as if its task had run.
cat >/dev/null
cp "$(dirname "$0")/shard.db" out/shards/
echo 1
SH
    chmod +x "$1/build/kvreel" "$1.bin/make" "$1.bin/sbatch"
    ln -s "$1/build/kvreel" "$1.bin/kvreel"
    git -C "$1" init -q
    git -C "$1" add -A
    git -C "$1" -c user.name=walk -c user.email=walk@localhost commit -q -m 'what there is'
}

# Writes the document's code blocks of the given languages to files DIR/NN; `plain` means no language.
blocks_of() { # DOCUMENT DIR LANGUAGE...
    local doc=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    awk -v dir="$dir" -v langs=" $* " '
        /^```/ && !open { open = 1; n++; lang = substr($0, 4)
                          on = index(langs, " " (lang == "" ? "plain" : lang) " "); next }
        /^```/ { open = on = 0; next }
        on { print > (dir "/" sprintf("%02d", n)) }' "$doc"
}

# walk CLONE NAME DOCUMENT LANGUAGE...: checks that each code block runs in the clone without an error.
walk() { # CLONE NAME DOCUMENT LANGUAGE...
    local clone=$1 name=$2 doc=$3 dir=$work/blocks-$2 block
    shift 3
    blocks_of "$doc" "$dir" "$@"
    for block in "$dir"/*; do
        [ -e "$block" ] || continue
        check "$name, block $(basename "$block"): $(head -n 1 "$block")" \
            env -u KVREEL_DATA PATH="$clone.bin:$PATH" bash -c "cd '$clone' && set -eEo pipefail
            trap 'echo \"FAILED: \$BASH_COMMAND\"' ERR
            . '$block'"
    done
}

# left_clean CLONE NAME: checks that git ignores all new files in the clone.
left_clean() { # CLONE NAME
    check "$2: git ignores all files that the commands wrote" test -z "$(git -C "$1" status --porcelain | tee >(cat >&2))"
}
