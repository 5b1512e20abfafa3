/* cmd_completion.c - `kvreel completion`: writes shell completion scripts from the parser's tables,
 * so that they offer the options that the parser accepts. The script calls the program for values
 * at completion time. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/values.h"

struct completion_opts {
    const char *values;
};

/* Returns whether the shell completes the option's value with file names: its placeholder in the
 * help is FILE, DIR or FOLDER. */
static bool wants_file(const struct kvr_arg *a)
{
    return a->value && (strcmp(a->value, "FILE") == 0 || strcmp(a->value, "DIR") == 0 ||
                        strcmp(a->value, "FOLDER") == 0);
}

static void each_command(void (*fn)(FILE *f, const struct kvr_command *c), FILE *f)
{
    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden)
            fn(f, kvr_commands[i]);
}

/* --- bash ------------------------------------------------------------------------------- */

static void bash_name(FILE *f, const struct kvr_command *c)
{
    fprintf(f, " %s", c->name);
}

static void bash_args(FILE *f, const struct kvr_arg *a)
{
    for (; a->name; a++)
        fprintf(f, " --%s", a->name);
}

static void bash_case(FILE *f, const struct kvr_command *c)
{
    const char *words = kvr_values_kind(c->name, "");

    fprintf(f, "    %s) words=\"--help", c->name);
    bash_args(f, kvr_args_common);
    bash_args(f, c->args);
    fprintf(f, "\" kind=%s ;;\n", words ? words : "");
}

/* Writes a case of the bash script, such as "generate:--method | generate:-m) kind=methods ;;". */
static void bash_value(FILE *f, const struct kvr_arg *a, const char *command)
{
    const char *kind = a->value ? kvr_values_kind(command, a->name) : NULL;

    if (!a->value)
        return;
    fprintf(f, "    %s:--%s", command, a->name);
    if (a->letter)
        fprintf(f, " | %s:-%c", command, a->letter);
    fprintf(f, ") kind=%s ;;\n", kind ? kind : wants_file(a) ? "" : "-");
}

static void bash_values(FILE *f, const struct kvr_command *c)
{
    for (const struct kvr_arg *a = c->args; a->name; a++)
        bash_value(f, a, c->name);
}

/* The script's variable `kind` names the list of values that completes the current word. If `kind`
 * is empty, the script completes file names; "-" means no completion. */
static void bash(FILE *f)
{
    fprintf(f, "# kvreel completion for bash. Use: source <(kvreel completion bash)\n"
               "_kvreel() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
               "    local command= words= kind= i\n"
               "    # Bash splits --option=value into three words.\n"
               "    [[ $cur == = ]] && cur=\n"
               "    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
               "    [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && prev=${COMP_WORDS[COMP_CWORD-1]}\n"
               "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
               "        case ${COMP_WORDS[i]} in");
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++)
        fprintf(f, "%s --%s", a == kvr_args_common ? "" : " |", a->name);
    fprintf(f, ") ((i++)) ;; -*) ;; *) command=${COMP_WORDS[i]}; break ;; esac\n"
               "    done\n"
               "    case $command in\n"
               "    '') words=\"");
    each_command(bash_name, f);
    fprintf(f, " help --version --help");
    bash_args(f, kvr_args_common);
    fprintf(f, "\" ;;\n");
    each_command(bash_case, f);
    fprintf(f, "    esac\n"
               "    case $command:$prev in\n");
    each_command(bash_values, f);
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++) {
        const char *kind = kvr_values_kind("", a->name);

        fprintf(f, "    *:--%s) kind=%s words= ;;\n", a->name, kind ? kind : "");
    }
    fprintf(f, "    esac\n"
               "    if [[ $cur == -* || ( -z $command && -n $words ) ]]; then\n"
               "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
               "    elif [[ $kind == - ]]; then\n"
               "        COMPREPLY=()\n"
               "    elif [[ $kind ]]; then\n"
               "        mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\" completion "
               "--values \"$kind\" 2>/dev/null)\" -- \"$cur\")\n"
               "        if [[ $kind == settings ]]; then compopt -o nospace 2>/dev/null; fi\n"
               "    else\n"
               "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
               "    fi\n"
               "}\n"
               "complete -o filenames -F _kvreel kvreel\n");
}

/* --- zsh -------------------------------------------------------------------------------- */

/* Writes text for a single-quoted string, and escapes [ ] and :, which zsh's _arguments would
 * interpret. */
static void zsh_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", f);
        else if (*s == '[' || *s == ']' || *s == ':' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else
            fputc(*s, f);
    }
}

static void zsh_name(FILE *f, const struct kvr_command *c)
{
    fprintf(f, "        '%s:", c->name);
    zsh_text(f, c->summary);
    fprintf(f, "'\n");
}

/* Writes ":MESSAGE:ACTION", which tells zsh's _arguments how to describe and complete an option's
 * value. */
static void zsh_value(FILE *f, const struct kvr_arg *a, const char *command)
{
    const char *kind = kvr_values_kind(command, a->name);

    fputc(':', f);
    zsh_text(f, a->value);
    if (kind)
        fprintf(f, ":_kvreel_values %s", kind);
    else
        fprintf(f, ":%s", wants_file(a) ? "_files" : "");
}

static void zsh_args(FILE *f, const struct kvr_arg *a, const char *command)
{
    for (; a->name; a++) {
        fprintf(f, " \\\n        '%s--%s%s[", a->type == KVR_ARG_T_LIST ? "*" : "", a->name,
                a->type == KVR_ARG_T_FLAG ? "" : "=");
        zsh_text(f, a->help);
        fputc(']', f);
        if (a->value)
            zsh_value(f, a, command);
        fputc('\'', f);
        if (!a->letter)
            continue;
        fprintf(f, " \\\n        '%s-%c%s[", a->type == KVR_ARG_T_LIST ? "*" : "", a->letter,
                a->type == KVR_ARG_T_FLAG ? "" : "+");
        zsh_text(f, a->help);
        fputc(']', f);
        if (a->value)
            zsh_value(f, a, command);
        fputc('\'', f);
    }
}

static void zsh_case(FILE *f, const struct kvr_command *c)
{
    const char *words = kvr_values_kind(c->name, "");

    fprintf(f, "    %s) _arguments '--help[print help on this command]'", c->name);
    zsh_args(f, kvr_args_common, "");
    zsh_args(f, c->args, c->name);
    if (words)
        fprintf(f, " \\\n        '*:word:_kvreel_values %s' ;;\n", words);
    else
        fprintf(f, " \\\n        '*:word:_files' ;;\n");
}

static void zsh(FILE *f)
{
    fprintf(f,
            "#compdef kvreel\n# kvreel completion for zsh: a file _kvreel in a folder of $fpath\n"
            "_kvreel_values() {\n"
            "    local -a values=(${(f)\"$(kvreel completion --values $@[-1] 2>/dev/null)\"})\n"
            "    if [[ $@[-1] == settings ]]; then compadd \"${@[1,-2]}\" -S '' -- $values\n"
            "    else compadd \"${@[1,-2]}\" -- $values; fi\n}\n"
            "local -a commands\ncommands=(\n");
    each_command(zsh_name, f);
    fprintf(f, ")\nif ((CURRENT == 2)); then\n    _describe command commands\n    return\nfi\n"
               "local command=$words[2]\nshift words\n((CURRENT--))\ncase $command in\n");
    each_command(zsh_case, f);
    fprintf(f, "esac\n");
}

/* --- fish ------------------------------------------------------------------------------- */

static void fish_text(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            fputc('\\', f);
        fputc(*s, f);
    }
}

/* Writes the completions of the options `a` of one command. If command is NULL, `a` are the options
 * that every command has and that may also precede its name. */
static void fish_args(FILE *f, const struct kvr_arg *a, const char *command)
{
    for (; a->name; a++) {
        const char *kind;

        fprintf(f, "complete -c kvreel");
        if (command)
            fprintf(f, " -n '__fish_seen_subcommand_from %s'", command);
        fprintf(f, " -l %s", a->name);
        if (a->letter)
            fprintf(f, " -s %c", a->letter);
        kind = a->value ? kvr_values_kind(command ? command : "", a->name) : NULL;
        if (kind)
            fprintf(f, " -x -a '(kvreel completion --values %s)'", kind);
        else if (a->value)
            fprintf(f, " -r%s", wants_file(a) ? " -F" : "");
        fprintf(f, " -d '");
        fish_text(f, a->help);
        fprintf(f, "'\n");
    }
}

static void fish_command(FILE *f, const struct kvr_command *c)
{
    const char *words = kvr_values_kind(c->name, "");

    fprintf(f, "complete -c kvreel -n __fish_use_subcommand -f -a %s -d '", c->name);
    fish_text(f, c->summary);
    fprintf(f, "'\n");
    fish_args(f, c->args, c->name);
    if (words)
        fprintf(f,
                "complete -c kvreel -n '__fish_seen_subcommand_from %s' -f -a '(kvreel completion "
                "--values %s)'\n",
                c->name, words);
}

static void fish(FILE *f)
{
    fish_args(f, kvr_args_common, NULL);
    each_command(fish_command, f);
}

static int run_completion(const struct kvr_call *call)
{
    const struct completion_opts *o = call->opts;
    const char *shell = call->words[0];

    if (o->values && shell)
        return kvr_cli_fail(kvr_fail(
            KVR_EINVAL, "completion: both --values %s and shell %s are given; use only one of them",
            o->values, shell));
    if (o->values) {
        enum kvr_status st = kvr_values_write(o->values, stdout);

        return st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    }
    if (!shell)
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL, "completion: needs the name of a shell: bash, zsh or fish"));
    if (strcmp(shell, "bash") == 0)
        bash(stdout);
    else if (strcmp(shell, "zsh") == 0)
        zsh(stdout);
    else if (strcmp(shell, "fish") == 0)
        fish(stdout);
    else
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL, "completion: unknown shell '%s', need bash, zsh or fish", shell));
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct completion_opts, values, "values", 0, "KIND", NULL,
                 "print all values of KIND, one per line: methods, metrics, models, suites, "
                 "tables, figures, settings or commands; completion scripts also use other kinds"),
    { 0 },
};

const struct kvr_command kvr_command_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .usage = "bash|zsh|fish | --values KIND",
    .examples = "  source <(kvreel completion bash)\n"
                "  kvreel completion zsh >~/.zfunc/_kvreel\n"
                "  kvreel completion fish >~/.config/fish/completions/kvreel.fish\n",
    .args = args,
    .opts_size = sizeof(struct completion_opts),
    .max_words = 1,
    .run = run_completion,
};
