/* cmd_completion.c - `kvreel completion` and `kvreel man`, made from the tables that the parser
 * reads: an option cannot be in one and not in the other. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/version.h"

struct no_opts {
    char unused;
};

/* Files are offered where an option or a word is one; words otherwise where we know them. */
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
    fprintf(f, "    %s) words=\"--help", c->name);
    bash_args(f, kvr_args_common);
    bash_args(f, c->args);
    fprintf(f, "\" ;;\n");
}

static void bash(FILE *f)
{
    fprintf(f, "# kvreel completion for bash. Use: source <(kvreel completion bash)\n"
               "_kvreel() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} command= words= i\n"
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
               "    if [[ $cur == -* || -z $command ]]; then\n"
               "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
               "    else\n"
               "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
               "    fi\n"
               "}\n"
               "complete -o filenames -F _kvreel kvreel\n");
}

/* --- zsh -------------------------------------------------------------------------------- */

/* For single quotes, inside of which zsh's _arguments reads [ ] and :. */
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

static void zsh_args(FILE *f, const struct kvr_arg *a)
{
    for (; a->name; a++) {
        fprintf(f, " \\\n        '%s--%s%s[", a->type == KVR_ARG_T_LIST ? "*" : "", a->name,
                a->type == KVR_ARG_T_FLAG ? "" : "=");
        zsh_text(f, a->help);
        fputc(']', f);
        if (a->value) {
            fputc(':', f);
            zsh_text(f, a->value);
            fprintf(f, ":%s", wants_file(a) ? "_files" : "");
        }
        fputc('\'', f);
    }
}

static void zsh_case(FILE *f, const struct kvr_command *c)
{
    fprintf(f, "    %s) _arguments '--help[what it does and takes]'", c->name);
    zsh_args(f, kvr_args_common);
    zsh_args(f, c->args);
    fprintf(f, " \\\n        '*:word:_files' ;;\n");
}

static void zsh(FILE *f)
{
    fprintf(f,
            "#compdef kvreel\n# kvreel completion for zsh: a file _kvreel in a folder of $fpath\n"
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

/* command NULL: options of every command, which may also stand before its word. */
static void fish_args(FILE *f, const struct kvr_arg *a, const char *command)
{
    for (; a->name; a++) {
        fprintf(f, "complete -c kvreel");
        if (command)
            fprintf(f, " -n '__fish_seen_subcommand_from %s'", command);
        fprintf(f, " -l %s", a->name);
        if (a->letter)
            fprintf(f, " -s %c", a->letter);
        if (a->value)
            fprintf(f, " -r%s", wants_file(a) ? " -F" : "");
        fprintf(f, " -d '");
        fish_text(f, a->help);
        fprintf(f, "'\n");
    }
}

static void fish_command(FILE *f, const struct kvr_command *c)
{
    fprintf(f, "complete -c kvreel -n __fish_use_subcommand -f -a %s -d '", c->name);
    fish_text(f, c->summary);
    fprintf(f, "'\n");
    fish_args(f, c->args, c->name);
}

static void fish(FILE *f)
{
    fish_args(f, kvr_args_common, NULL);
    each_command(fish_command, f);
}

static int run_completion(const struct kvr_call *call)
{
    const char *shell = call->words[0];

    if (strcmp(shell, "bash") == 0)
        bash(stdout);
    else if (strcmp(shell, "zsh") == 0)
        zsh(stdout);
    else if (strcmp(shell, "fish") == 0)
        fish(stdout);
    else
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL, "completion: '%s' is none of bash, zsh, fish", shell));
    return KVR_EXIT_OK;
}

/* --- man -------------------------------------------------------------------------------- */

/* troff reads '-' as a hyphen, a dot or quote at a line's beginning as a request. */
static void man_text(FILE *f, const char *s)
{
    bool begin = true;

    for (; *s; s++) {
        if (begin && (*s == '.' || *s == '\''))
            fputs("\\&", f);
        if (*s == '-')
            fputs("\\-", f);
        else if (*s == '\\')
            fputs("\\e", f);
        else
            fputc(*s, f);
        begin = *s == '\n';
    }
}

static void man_arg(FILE *f, const struct kvr_arg *a)
{
    fprintf(f, ".TP\n");
    if (a->letter)
        fprintf(f, "\\fB\\-%c\\fR, ", a->letter);
    fprintf(f, "\\fB\\-\\-");
    man_text(f, a->name);
    fprintf(f, "\\fR");
    if (a->value) {
        fprintf(f, " \\fI");
        man_text(f, a->value);
        fprintf(f, "\\fR");
    }
    fputc('\n', f);
    man_text(f, a->help);
    if (a->def) {
        fprintf(f, " [");
        man_text(f, a->def);
        fputc(']', f);
    }
    fputc('\n', f);
}

static void man_command(FILE *f, const struct kvr_command *c)
{
    fprintf(f, ".SS \"kvreel %s ", c->name);
    for (const char *s = c->usage; *s; s++) { /* quotes would end the heading */
        if (*s == '"')
            fputs("\\(dq", f);
        else if (*s == '-')
            fputs("\\-", f);
        else
            fputc(*s, f);
    }
    fprintf(f, "\"\n");
    man_text(f, c->summary);
    fprintf(f, ".\n");
    for (const struct kvr_arg *a = c->args; a->name; a++)
        man_arg(f, a);
    if (c->details) {
        fprintf(f, ".PP\n");
        man_text(f, c->details);
    }
    if (c->examples) {
        fprintf(f, ".PP\nExamples:\n.nf\n");
        man_text(f, c->examples);
        fprintf(f, ".fi\n");
    }
}

static int run_man(const struct kvr_call *call)
{
    (void)call;
    printf(".TH KVREEL 1 \"\" \"kvreel %s\"\n.SH NAME\nkvreel \\- which way of compressing the KV "
           "cache helps an autoregressive video model?\n.SH SYNOPSIS\n\\fBkvreel\\fR "
           "[\\fB\\-\\-plugin\\fR \\fIFILE\\fR] [\\fB\\-\\-cpu\\fR \\fINAME\\fR] "
           "\\fICOMMAND\\fR [options]\n.SH OPTIONS\nBefore the command or among its own:\n",
           kvr_version());
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++)
        man_arg(stdout, a);
    printf(".SH COMMANDS\n");
    each_command(man_command, stdout);
    printf(".SH EXIT STATUS\n0 done and valid; 1 internal error; 2 usage or configuration error; "
           "3 the sweep finished with failed cells; 4 a comparison is out of tolerance; 5 nothing "
           "was measured; 75 interrupted, can be resumed.\n.SH ENVIRONMENT\n\\fBNO_COLOR\\fR, "
           "\\fBCLICOLOR_FORCE\\fR, \\fBTERM\\fR: whether progress is coloured. "
           "\\fBKVREEL_DATA\\fR: where models/ and configs/ are. \\fBKVREEL_CPU\\fR: as "
           "\\-\\-cpu.\n");
    return KVR_EXIT_OK;
}

static const struct kvr_arg no_args[] = { { 0 } };

const struct kvr_command kvr_command_completion = {
    .name = "completion",
    .summary = "a shell's completion script",
    .usage = "bash|zsh|fish",
    .examples = "  source <(kvreel completion bash)\n"
                "  kvreel completion zsh >~/.zfunc/_kvreel\n"
                "  kvreel completion fish >~/.config/fish/completions/kvreel.fish\n",
    .args = no_args,
    .opts_size = sizeof(struct no_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run_completion,
};

const struct kvr_command kvr_command_man = {
    .name = "man",
    .summary = "the manual page",
    .usage = ">kvreel.1",
    .examples = "  kvreel man >kvreel.1\n"
                "  kvreel man | man -l -\n"
                "  kvreel run --help                             # one command alone\n",
    .args = no_args,
    .opts_size = sizeof(struct no_opts),
    .run = run_man,
};
