#!/usr/bin/env bash
# completion and man cover every command and option of --help. The shells can read the completion scripts, and man
# can read the manual pages.
. tests/cli/lib.sh || exit 1

commands=$("$kvreel" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "help lists commands" test "$(wc -w <<<"$commands")" -ge 15
check "help lists the options of every command once" test \
    "$("$kvreel" help | grep -cE '^ +(-h, )?--(plugin|cpu|help) ')" -eq 3
check "help lists commands and summaries in two columns" test "$("$kvreel" help | sed -n '/^Commands:/,/^$/p' | grep -vcE '^(Commands:|  .{13} [a-z].*|)$')" -eq 0
declare -A options
for c in $commands; do
    options[$c]=$("$kvreel" "$c" --help | sed -n '/^Options:/,/^$/s/^  \(-., \|    \)--\([a-z-]*\).*/\2/p' | sort -u)
    long=$("$kvreel" "$c" --help | awk 'length > 100')
    check "$c: the help is wrapped at 100 columns" test -z "$long"
    check "$c: has options" test "$(wc -w <<<"${options[$c]}")" -ge 1
    check "$c: the help omits the options of every command" bash -c "! grep -qxE 'plugin|cpu' <<<'${options[$c]}'"
done
for shell in bash zsh fish man; do
    word=(completion "$shell")
    [ "$shell" = man ] && word=(man)
    exits 0 "${word[*]}" "${word[@]}"
    cp "$out" "$work/$shell"
    missing=
    for c in $commands; do
        grep -q -- "$c" "$work/$shell" || missing+=" $c"
        case $shell in
        bash) line=$(grep "^    $c) " "$work/bash") ;;
        zsh) line=$(sed -n "/^    $c) /,/;;/p" "$work/zsh") ;;
        fish) line=$(grep "subcommand_from $c'" "$work/fish") ;;
        man) line=$(sed -n "/^.SS kvreel $c\$/,/^.SS/p" "$work/man") ;;
        esac
        for o in ${options[$c]}; do
            case $o in help | plugin | cpu) continue ;; esac
            case $shell in
            bash | zsh) want="--$o" ;;
            fish) want="-l $o" ;;
            man) want="${o//-/\\-}" ;;
            esac
            [[ $line == *"$want"* ]] || missing+=" $c:--$o"
        done
    done
    for o in plugin cpu; do # options of every command
        case $shell in
        fish) want="kvreel -l $o " ;;
        man) want="\\-\\-$o\\fR" ;;
        *) want="--$o" ;;
        esac
        grep -qF -- "$want" "$work/$shell" || missing+=" --$o"
    done
    check "$shell has every command and option; missing:$missing" test -z "$missing"
done
check "bash -n accepts the completion script" bash -n "$work/bash"
check "bash completes an option" bash -c "source $work/bash
    COMP_WORDS=(kvreel run --sha) COMP_CWORD=2
    _kvreel && test \"\${COMPREPLY[*]}\" = --shard"
check "bash completes an option after --cpu and the command" bash -c "source $work/bash
    COMP_WORDS=(kvreel --cpu avx2 run --sha) COMP_CWORD=4
    _kvreel && test \"\${COMPREPLY[*]}\" = --shard"
check "bash completes a command" bash -c "source $work/bash
    COMP_WORDS=(kvreel comple) COMP_CWORD=1
    _kvreel && test \"\${COMPREPLY[*]}\" = completion"
for shell in zsh fish; do
    has $shell "$shell reads it" && check "$shell -n accepts the completion script" $shell -n "$work/$shell"
done
if has man "man reads it" && has groff "man reads it"; then
    formats=1
    check "man formats the manual without warnings" bash -c "test -z \"\$(man --warnings -l $work/man 2>&1 >/dev/null)\""
fi

# --- values ---------------------------------------------------------------------------------

for kind in methods metrics models suites tables figures settings commands; do
    exits 0 "values: $kind" completion --values $kind
    check "completion --values $kind lists names" test -s "$out"
    check "completion --values $kind prints one name per line" bash -c "! grep -q '[ 	]' '$out'"
done
exits 0 "completion --values methods" completion --values methods
check "the values of methods are those of list methods and list readings" diff <(sort "$out") \
    <({
        "$kvreel" list methods --json | jq -r '.[].name'
        "$kvreel" list readings --json | jq -r '.[].spec'
    } | sort -u)
exits 0 "completion --values metrics" completion --values metrics
check "the values of metrics are those of list metrics" diff <(sort "$out") <("$kvreel" list metrics --json | jq -r '.[] | select(.needs_truth | not).name' | sort)
exits 0 "completion --values suites" completion --values suites
check "the values of suites are those of list suites" diff <(sort "$out") <("$kvreel" list suites --json | jq -r '.[].name' | sort)
exits 0 "completion --values tables" completion --values tables
check "the values of tables are those of report --list" diff "$out" <("$kvreel" report --list | awk '{print $1}')
exits 0 "completion --values figures" completion --values figures
check "the values of figures are those of plot --list" diff "$out" <("$kvreel" plot --list | awk '{print $1}')
exits 0 "completion --values settings" completion --values settings
prints "the values of settings end with =" '^window=$'
exits 2 "completion refuses an unknown kind of values" completion --values colours
exits 2 "completion refuses a shell together with --values" completion bash --values methods

mkdir "$work/bin"
ln -s "$kvreel" "$work/bin/kvreel"
# offered_SHELL LINE WORD: prints what the shell offers to complete WORD at the end of LINE, one candidate per line.
offered_bash() { # LINE
    PATH=$work/bin:$PATH bash -c "source $work/bash
        compopt() { :; }
        COMP_WORDS=($1 '$2') COMP_CWORD=\$((\${#COMP_WORDS[@]} - 1))
        _kvreel && printf '%s\n' \"\${COMPREPLY[@]}\""
}
offered_fish() {
    PATH=$work/bin:$PATH fish --no-config -c "source $work/fish; complete -C '$1 $2'" | cut -f 1
}
# zsh completes only in a terminal, so it runs in a pseudo terminal. A replaced compadd writes the candidates to a
# file.
cat >"$work/ask.zsh" <<'ZSH'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=''; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; stty -echo"
zpty -w z "compadd() { local -a hits; builtin compadd -O hits \"\$@\"; print -rl -- \$hits >>$1/offered; builtin compadd \"\$@\" }"
zpty -w z "print READY >$1/ready"
for ((i = 0; i < 400; i++)); do [[ -e $1/ready ]] && break; sleep .05; done
zpty -w -n z "$2"$'\t'
for ((i = 0; i < 400; i++)); do [[ -s $1/offered ]] && break; sleep .05; done
sleep .2
zpty -d z
ZSH
offered_zsh() {
    PATH=$work/bin:$PATH timeout 60 zsh -f "$work/ask.zsh" "$work/zsh-dir" "$1 $2" >/dev/null
    cat "$work/zsh-dir/offered" 2>/dev/null
    rm -f "$work/zsh-dir/offered" "$work/zsh-dir/ready"
}
mkdir "$work/zsh-dir"
cp "$work/zsh" "$work/zsh-dir/_kvreel"

offers() { # SHELL CANDIDATE LINE WORD: the shell offers CANDIDATE, and nothing that does not begin with WORD
    local got
    got=$("offered_$1" "$3" "$4" | sort -u)
    if grep -qxF -- "$2" <<<"$got" && ! grep -vE "^(${4//+/\\+}|$)" <<<"$got" | grep -q .; then
        ok "$1 offers $2 for: $3 $4"
    else
        fail "$1 offers '$(head -n 5 <<<"$got" | tr '\n' ' ')', not $2, for: $3 $4"
    fi
}
for shell in bash zsh fish; do
    has $shell "$shell completes values" || continue
    offers $shell RTN_K2_V4 'kvreel generate --method' RTN_K2
    offers $shell RTN_K2_V4 'kvreel generate -m' RTN_K2
    offers $shell RTN_K2_V4@study 'kvreel show' RTN_K2
    offers $shell ssim_gauss 'kvreel compare a b --metrics' ssim
    offers $shell moviegen-nano 'kvreel profile --suite' movie
    offers $shell summary 'kvreel report --table' sum
    offers $shell pareto 'kvreel plot' par
    offers $shell latex 'kvreel report --format' la
    offers $shell portable 'kvreel run --cpu' po
    offers $shell window= 'kvreel run x.yaml --set' win
done

# --- the manual -----------------------------------------------------------------------------

for c in $commands; do
    exits 0 "man $c" man "$c"
    cp "$out" "$work/$c.1"
    lost=
    for o in $("$kvreel" "$c" --help | sed -n '/^Options:/,/^$/s/^ .*--\([a-z-]*\).*/\1/p' | sort -u); do
        [ "$o" = help ] || grep -qF -- "\\-\\-${o//-/\\-}" "$work/$c.1" || lost+=" --$o"
    done
    check "man $c has every option; missing:$lost" test -z "$lost"
    if [ -n "${formats-}" ]; then
        check "man formats kvreel-$c without warnings" bash -c "test -z \"\$(man --warnings -l $work/$c.1 2>&1 >/dev/null)\""
    fi
done
check "the synopsis has a line for each form of the command" test "$(grep -c '^.fBkvreel codec.fR .*' "$work/codec.1")" -eq 2
check "the manual page has a date" grep -qE '^\.TH KVREEL-CODEC 1 "20[0-9]{2}-[0-9]{2}-[0-9]{2}" "kvreel [0-9.]+"$' "$work/codec.1"
exits 2 "man has no page for the internal command worker" man worker
prints_none=$("$kvreel" man | grep -c KVREEL_LIFE)
check "the manual lists environment variables" grep -q KVREEL_TIMEOUT_S "$work/man"
check "the manual omits internal environment variables" test "$prints_none" -eq 0

exits 2 "completion refuses csh" completion csh
exits 2 "completion needs a shell" completion
