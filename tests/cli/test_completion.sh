#!/usr/bin/env bash
# completion and man: nothing that --help knows is missing, and the shells can read it.
. tests/cli/lib.sh || exit 1

commands=$("$kvreel" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "help lists commands" test "$(wc -w <<<"$commands")" -ge 15
for shell in bash zsh fish man; do
    word=(completion "$shell")
    [ "$shell" = man ] && word=(man)
    exits 0 "${word[*]}" "${word[@]}"
    cp "$out" "$work/$shell"
    missing=
    for c in $commands; do
        grep -q -- "$c" "$work/$shell" || missing+=" $c"
        for o in $("$kvreel" "$c" --help | sed -n '/^Options:/,/^$/s/^ .*--\([a-z-]*\).*/\1/p' | sort -u); do
            case $o in help | plugin | cpu) continue ;; esac
            case $shell in
            bash) line=$(grep "^    $c) " "$work/bash") && want="--$o" ;;
            zsh) line=$(sed -n "/^    $c) /,/;;/p" "$work/zsh") && want="--$o" ;;
            fish) line=$(grep "subcommand_from $c'" "$work/fish") && want="-l $o" ;;
            man) line=$(sed -n "/^.SS \"kvreel $c /,/^.SS/p" "$work/man") && want="${o//-/\\-}" ;;
            esac
            grep -qF -- "$want" <<<"$line" || missing+=" $c:--$o"
        done
    done
    for o in plugin cpu; do # of every command
        case $shell in
        fish) want="kvreel -l $o " ;;
        man) want="\\-\\-$o\\fR" ;;
        *) want="--$o" ;;
        esac
        grep -qF -- "$want" "$work/$shell" || missing+=" --$o"
    done
    check "nothing is missing from it ($shell):$missing" test -z "$missing"
done
check "bash can read it" bash -n "$work/bash"
check "and completes" bash -c "source $work/bash
    COMP_WORDS=(kvreel run --sha) COMP_CWORD=2
    _kvreel && test \"\${COMPREPLY[*]}\" = --shard"
check "behind an option that stands before the command" bash -c "source $work/bash
    COMP_WORDS=(kvreel --cpu avx2 run --sha) COMP_CWORD=4
    _kvreel && test \"\${COMPREPLY[*]}\" = --shard"
check "a command, too" bash -c "source $work/bash
    COMP_WORDS=(kvreel comple) COMP_CWORD=1
    _kvreel && test \"\${COMPREPLY[*]}\" = completion"
for shell in zsh fish; do
    if command -v $shell >/dev/null; then
        check "$shell can read it" $shell -n "$work/$shell"
    else
        skip "$shell reads it" "$shell is not installed"
    fi
done
if command -v man >/dev/null && command -v groff >/dev/null; then
    check "man reads it without warnings" bash -c "test -z \"\$(man --warnings -l $work/man 2>&1 >/dev/null)\""
fi
exits 2 "another shell" completion csh
exits 2 "none" completion
