/* cmd_man.c - `kvreel man`: writes manual pages from the tables of the parser and --help. */
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/core/version.h"

struct no_opts {
    char unused;
};

/* Escapes '-', which troff reads as a hyphen, and a dot or quote at the start of a line, which
 * begins a request. */
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

/* Writes a command's --help text without its heading. */
static void man_body(FILE *f, const struct kvr_command *c)
{
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

/* Writes the synopsis, with each form of the command on a line of its own. */
static void man_synopsis(FILE *f, const struct kvr_command *c)
{
    char form[512];

    for (const char *s = c->usage, *first = s; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        snprintf(form, sizeof form, "%.*s", (int)strcspn(s, "\n"), s);
        fprintf(f, "%s\\fBkvreel %s\\fR ", s == first ? "" : ".br\n", c->name);
        man_text(f, form);
        fputc('\n', f);
    }
}

static void man_command(FILE *f, const struct kvr_command *c)
{
    fprintf(f, ".SS kvreel %s\n", c->name);
    man_synopsis(f, c);
    fprintf(f, ".PP\n");
    man_text(f, c->summary);
    fprintf(f, ".\n");
    man_body(f, c);
}

static void man_common(FILE *f)
{
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++)
        man_arg(f, a);
}

static void man_exit(FILE *f)
{
    fprintf(f, ".SH EXIT STATUS\n");
    for (const struct kvr_exit_meaning *e = kvr_exit_meanings; e->meaning; e++)
        fprintf(f, ".TP\n%d\n%s\n", e->code, e->meaning);
}

static void man_environment(FILE *f)
{
    fprintf(f, ".SH ENVIRONMENT\n"
               ".TP\n"
               "\\fBNO_COLOR\\fR, \\fBCLICOLOR_FORCE\\fR, \\fBTERM\\fR\n"
               "If NO_COLOR is set, progress output has no colours. If CLICOLOR_FORCE is set (not "
               "to 0), it has\n"
               "colours even if stderr is not a terminal. TERM=dumb means no colours.\n");
    for (const struct kvr_variable *v = kvr_variables; v->name; v++) {
        if (!v->help)
            continue;
        fprintf(f, ".TP\n\\fB%s\\fR\n", v->name);
        man_text(f, v->help);
        fprintf(f, "\n");
    }
}

static void man_program(FILE *f)
{
    fprintf(f,
            ".TH KVREEL 1 \"%s\" \"kvreel %s\"\n.SH NAME\nkvreel \\- benchmark of KV-cache "
            "compression for autoregressive video diffusion\n.SH SYNOPSIS\n\\fBkvreel\\fR "
            "[\\fB\\-\\-plugin\\fR \\fIFILE\\fR] [\\fB\\-\\-cpu\\fR \\fINAME\\fR] "
            "\\fICOMMAND\\fR [options]\n.SH OPTIONS\nThese options may precede the command or "
            "follow it:\n",
            kvr_git_date(), kvr_version());
    man_common(f);
    fprintf(f, ".SH COMMANDS\n");
    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden)
            man_command(f, kvr_commands[i]);
    man_exit(f);
    man_environment(f);
}

/* kvreel-NAME(1). */
static void man_page(FILE *f, const struct kvr_command *c)
{
    fprintf(f, ".TH KVREEL-");
    for (const char *s = c->name; *s; s++)
        fputc(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s, f);
    fprintf(f, " 1 \"%s\" \"kvreel %s\"\n.SH NAME\nkvreel\\-%s \\- ", kvr_git_date(), kvr_version(),
            c->name);
    man_text(f, c->summary);
    fprintf(f, "\n.SH SYNOPSIS\n");
    man_synopsis(f, c);
    fprintf(f, ".SH OPTIONS\n");
    man_body(f, c);
    fprintf(f, ".PP\nOptions of every command:\n");
    man_common(f);
    man_exit(f);
    fprintf(f, ".SH SEE ALSO\n\\fBkvreel\\fR(1)\n");
}

static int run(const struct kvr_call *call)
{
    const struct kvr_command *c = call->n_words ? kvr_command_find(call->words[0]) : NULL;

    if (call->n_words && (!c || c->hidden))
        return kvr_cli_fail(kvr_fail(KVR_EINVAL,
                                     "man: unknown command '%s'; `kvreel help` lists the commands",
                                     call->words[0]));
    if (c)
        man_page(stdout, c);
    else
        man_program(stdout);
    return KVR_EXIT_OK;
}

static const struct kvr_arg no_args[] = { { 0 } };

const struct kvr_command kvr_command_man = {
    .name = "man",
    .summary = "print the manual page of the program or of one command",
    .usage = "[COMMAND] >kvreel.1",
    .examples = "  kvreel man >kvreel.1\n"
                "  kvreel man | man -l -\n"
                "  kvreel man run | man -l -                     # one command alone\n",
    .args = no_args,
    .opts_size = sizeof(struct no_opts),
    .max_words = 1,
    .run = run,
};
