# shellcheck shell=bash
# walk.sh - the fenced commands of a document, run in order as a reader would type them, in a
# folder that is like a fresh clone. For scripts that have read lib.sh.
#
# What would take minutes is made small, and only that: sweeps get few frames and few cells, a
# rollout few frames. `make` says what it would do. sbatch is a stand-in that leaves a shard.

# A clone of what git knows, the program in build/, and a repository of its own, which tells later
# what was written to places that are not ignored.
make_clone() { # FOLDER
    mkdir -p "$1/build" "$1.bin"
    git -C "$root" ls-files -z | (cd "$root" && xargs -0 tar cf -) | tar xf - -C "$1"
    cp "$kvreel" "$1/build/kvreel.real"
    cat >"$1/build/kvreel" <<'SH'
#!/usr/bin/env bash
# The program, with what a test cannot wait for made smaller.
real=$(dirname "$(realpath "$0")")/kvreel.real
case " $* " in
*" bench "*) exit 0 ;; # minutes of timing; tests/cli/test_bench.sh runs it
*" settle "*) exec "$real" settle --help ;; # minutes of prompts; tests/cli/test_settle.sh runs it
*" run "*cost-wan-cut.yaml*) # hours: two cells of the small model stand where its cells would
    exec "$real" run configs/first.yaml --db out/cost-wan-cut.db --out out/cost-wan-cut --set frames=6 --limit 2 -q ;;
*" run "*partial-prefill.yaml*) # a model of 93 MB: a random one of 48 KB and two texts of noise
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
*" embed "*) # a text encoder of 11 GB: tests/cli/test_wan.sh embeds with a small one
    "$real" embed --help ;;
*" import vbench FILE "* | *" score lpips "*out/corrections.db*) # results of a run that needs Wan's weights
    exec "$real" "$1" --help ;;
*" -i KV.safetensors "*) # recorded keys and values
    exec "$real" codec --help ;;
*" import "*wan-study33.db* | *" reproduce "*wan-study33.db*) # of a run that needs Wan's weights
    exec "$real" "$1" --help ;;
*" run "*device=cuda*) # a device is not everywhere
    "$real" run configs/cost-wan.yaml --set frames=12 --dry-run ;;
*" run configs/trace.yaml "*) exec "$real" "$@" --set 'methods=[BF16, RTN_INT4]' ;;
*" run configs/first.yaml "*) exec "$real" "$@" --set frames=6 --set baselines=none ;;
*" run "*) exec "$real" "$@" --limit 1 ;;
*" generate "*) exec "$real" "$@" --frames 6 ;;
*) exec "$real" "$@" ;;
esac
SH
    # Minutes of nvcc, and a GPU: tests/cli/test_device_check.sh packs and runs it.
    printf '#!/usr/bin/env bash\n[ "$1" = --pack ] || [ "$1" = --run ]\n' >"$1/tools/device-check.sh"
    cat >"$1.bin/make" <<'SH'
#!/usr/bin/env bash
exec /usr/bin/make -n "$@" >/dev/null
SH
    cat >"$1.bin/sbatch" <<'SH'
#!/usr/bin/env bash
# A cluster in which the first shard has run.
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

# Blocks of one language ("": none said) as files DIR/NN.
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

# Every block runs to its end without an error.
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

# Nothing lies where git would see it.
left_clean() { # CLONE NAME
    check "$2: what it made lies in ignored places" test -z "$(git -C "$1" status --porcelain | tee >(cat >&2))"
}
