/* args.c - the option parser of the command line. */
#include "harness/cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/wrap.h"
#include "harness/core/duration.h"
#include "harness/core/opts.h"

enum { MAX_ARGS = 64 };

const struct kvr_arg kvr_args_common[] = {
    KVR_ARG_LIST(struct kvr_call, plugins, "plugin", 0, "FILE",
                 "load methods, codec stages and policies from a shared object, or a method from a "
                 "Python file"),
    KVR_ARG_TEXT(struct kvr_call, cpu, "cpu", 0, "NAME", NULL,
                 "use this variant of the CPU kernels: portable, avx2, avxvnni, avx512, vnni, "
                 "amx_bf16, amx_int8 or neon; the default is the fastest that the CPU supports"),
    { 0 },
};
enum { N_COMMON = sizeof kvr_args_common / sizeof *kvr_args_common - 1 };

static const struct kvr_arg *find_long(const struct kvr_arg *args, const char *name, size_t n)
{
    for (; args->name; args++)
        if (strlen(args->name) == n && memcmp(args->name, name, n) == 0)
            return args;
    return NULL;
}

static const struct kvr_arg *find_letter(const struct kvr_arg *args, char letter)
{
    for (; args->name; args++)
        if (args->letter == letter)
            return args;
    return NULL;
}

static enum kvr_status unknown(const struct kvr_command *cmd, const char *name, size_t n)
{
    const char *names[MAX_ARGS + N_COMMON + 2];
    char word[64];
    int count = 0;
    const char *near;

    snprintf(word, sizeof word, "%.*s", (int)n, name);
    for (const struct kvr_arg *a = cmd->args; a->name && count < MAX_ARGS; a++)
        names[count++] = a->name;
    names[count++] = "help";
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++)
        names[count++] = a->name;
    names[count] = NULL;
    near = kvr_nearest(word, names);
    if (near)
        return kvr_fail(KVR_EINVAL, "%s: unknown option --%s; did you mean --%s?", cmd->name, word,
                        near);
    return kvr_fail(KVR_EINVAL, "%s: unknown option --%s; `kvreel %s --help` lists them", cmd->name,
                    word, cmd->name);
}

static enum kvr_status set_number(const struct kvr_command *cmd, const struct kvr_arg *a, void *at,
                                  const char *text)
{
    bool whole = a->type == KVR_ARG_T_INT;
    char *end;
    double x;

    errno = 0;
    x = whole ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text || *end || errno || !(x >= a->min && x <= a->max))
        return kvr_fail(KVR_EINVAL,
                        whole
                            ? "%s: --%s: '%s' is not allowed, need a whole number from %.0f to %.0f"
                            : "%s: --%s: '%s' is not allowed, need a number from %g to %g",
                        cmd->name, a->name, text, a->min, a->max);
    if (whole)
        *(int *)at = (int)x;
    else
        *(double *)at = x;
    return KVR_OK;
}

static enum kvr_status set_time(const struct kvr_command *cmd, const struct kvr_arg *a, void *at,
                                const char *text)
{
    double x;

    if (!kvr_duration_parse(text, &x))
        return kvr_fail(KVR_EINVAL, "%s: --%s '%s': need " KVR_DURATION_FORM, cmd->name, a->name,
                        text);
    if (!(x >= a->min && x <= a->max))
        return kvr_fail(KVR_EINVAL, "%s: --%s '%s': need a time from %.0fs to %.0fh", cmd->name,
                        a->name, text, a->min, floor(a->max / 3600));
    *(int *)at = (int)x;
    return KVR_OK;
}

static enum kvr_status set_value(const struct kvr_command *cmd, const struct kvr_arg *a, void *opts,
                                 const char *text)
{
    void *at = (char *)opts + a->offset;

    switch (a->type) {
    case KVR_ARG_T_TEXT:
        *(const char **)at = text;
        return KVR_OK;
    case KVR_ARG_T_INT:
    case KVR_ARG_T_REAL:
        return set_number(cmd, a, at, text);
    case KVR_ARG_T_TIME:
        return set_time(cmd, a, at, text);
    case KVR_ARG_T_U64: {
        char *end;
        unsigned long long x;

        errno = 0;
        x = strtoull(text, &end, 10);
        if (end == text || *end || errno || strchr(text, '-'))
            return kvr_fail(KVR_EINVAL,
                            "%s: --%s: '%s' is not allowed, need a whole number from 0 to 2^64 - 1",
                            cmd->name, a->name, text);
        *(uint64_t *)at = x;
        return KVR_OK;
    }
    case KVR_ARG_T_LIST: {
        struct kvr_arg_list *l = at;

        if (l->n == KVR_ARG_LIST_MAX)
            return kvr_fail(KVR_EINVAL, "%s: --%s is given more than the limit of %d times",
                            cmd->name, a->name, KVR_ARG_LIST_MAX);
        l->v[l->n++] = text;
        l->v[l->n] = NULL;
        return KVR_OK;
    }
    case KVR_ARG_T_FLAG:
    case KVR_ARG_T_END:
        break;
    }
    return kvr_fail(KVR_EINTERNAL, "%s: the table entry of option --%s has no type", cmd->name,
                    a->name);
}

static enum kvr_status defaults(const struct kvr_command *cmd, void *opts)
{
    memset(opts, 0, cmd->opts_size);
    for (const struct kvr_arg *a = cmd->args; a->name; a++)
        if (a->def)
            KVR_TRY(set_value(cmd, a, opts, a->def));
    return KVR_OK;
}

/* Parses the --long option at argv[*i]; advances *i past its value. */
static enum kvr_status parse_long(const struct kvr_command *cmd, int argc, char **argv, int *i,
                                  void *opts, struct kvr_call *call)
{
    const char *name = argv[*i] + 2;
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    const struct kvr_arg *a = find_long(cmd->args, name, n);

    if (!a) {
        a = find_long(kvr_args_common, name, n);
        opts = call;
    }
    if (!a)
        return unknown(cmd, name, n);
    if (a->type == KVR_ARG_T_FLAG) {
        if (value)
            return kvr_fail(KVR_EINVAL, "%s: --%s takes no value, but '%s' is given", cmd->name,
                            a->name, value);
        *(bool *)((char *)opts + a->offset) = true;
        return KVR_OK;
    }
    if (!value) {
        if (*i + 1 >= argc)
            return kvr_fail(KVR_EINVAL, "%s: --%s needs a value: %s (%s)", cmd->name, a->name,
                            a->value, a->help);
        value = argv[++*i];
    }
    return set_value(cmd, a, opts, value);
}

/* Parses a cluster of short options at argv[*i]: flags, then one option that may take a value. */
static enum kvr_status parse_short(const struct kvr_command *cmd, int argc, char **argv, int *i,
                                   void *opts, bool *help)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        const struct kvr_arg *a = find_letter(cmd->args, *p);

        if (!a && *p == 'h') {
            *help = true;
            return KVR_OK;
        }
        if (!a)
            return kvr_fail(KVR_EINVAL, "%s: unknown option -%c; `kvreel %s --help` lists them",
                            cmd->name, *p, cmd->name);
        if (a->type == KVR_ARG_T_FLAG) {
            *(bool *)((char *)opts + a->offset) = true;
            continue;
        }
        if (p[1])
            return set_value(cmd, a, opts, p + 1);
        if (*i + 1 >= argc)
            return kvr_fail(KVR_EINVAL, "%s: -%c needs a value: %s (%s)", cmd->name, *p, a->value,
                            a->help);
        return set_value(cmd, a, opts, argv[++*i]);
    }
    return KVR_OK;
}

enum kvr_status kvr_args_parse(const struct kvr_command *cmd, int argc, char **argv, int first,
                               void *opts, const char **words, struct kvr_call *call)
{
    bool only_words = false;

    *call = (struct kvr_call){
        .command = cmd, .opts = opts, .words = words, .argc = argc, .argv = argv
    };
    KVR_TRY(defaults(cmd, opts));
    for (int i = first; i < argc; i++) {
        const char *arg = argv[i];

        if (only_words || arg[0] != '-' || !arg[1])
            words[call->n_words++] = arg;
        else if (strcmp(arg, "--") == 0)
            only_words = true;
        else if (strcmp(arg, "--help") == 0)
            call->help = true;
        else if (arg[1] == '-')
            KVR_TRY(parse_long(cmd, argc, argv, &i, opts, call));
        else
            KVR_TRY(parse_short(cmd, argc, argv, &i, opts, &call->help));
        if (call->help)
            return KVR_OK;
    }
    words[call->n_words] = NULL;
    if (call->n_words < cmd->min_words)
        return kvr_fail(KVR_EINVAL,
                        "%s: too few arguments: %d given, need at least %d; usage: kvreel %s %.*s",
                        cmd->name, call->n_words, cmd->min_words, cmd->name,
                        (int)strcspn(cmd->usage, "\n"), cmd->usage);
    if (call->n_words > cmd->max_words)
        return kvr_fail(KVR_EINVAL,
                        "%s: unexpected argument '%s': %d arguments given, at most %d allowed; "
                        "usage: kvreel %s %.*s",
                        cmd->name, words[cmd->max_words], call->n_words, cmd->max_words, cmd->name,
                        (int)strcspn(cmd->usage, "\n"), cmd->usage);
    return KVR_OK;
}

enum kvr_status kvr_args_leading(int argc, char **argv, int *at, struct kvr_call *call)
{
    static const struct kvr_command program = { .name = "before the command",
                                                .args = kvr_args_common };

    for (; *at < argc && strncmp(argv[*at], "--", 2) == 0; ++*at) {
        const char *name = argv[*at] + 2;

        if (!find_long(kvr_args_common, name, strcspn(name, "=")))
            break;
        KVR_TRY(parse_long(&program, argc, argv, at, call, call));
    }
    return KVR_OK;
}

enum { HELP_COLUMN = 31 }; /* column where help texts of options begin */

static void help_line(const struct kvr_arg *a, FILE *to)
{
    char head[64], text[1024];

    snprintf(head, sizeof head, "%s%c%s --%s%s%s", a->letter ? "-" : " ",
             a->letter ? a->letter : ' ', a->letter ? "," : " ", a->name, a->value ? " " : "",
             a->value ? a->value : "");
    snprintf(text, sizeof text, "%s%s%s%s", a->help, a->def ? " [" : "", a->def ? a->def : "",
             a->def ? "]" : "");
    kvr_wrap_entry(to, HELP_COLUMN, head, text);
}

/* Prints the synopsis, whose further lines begin with "kvreel". */
static void print_usage(const struct kvr_command *cmd, FILE *to)
{
    char line[512];

    for (const char *s = cmd->usage, *first = s; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        snprintf(line, sizeof line, "kvreel %s %.*s", cmd->name, (int)strcspn(s, "\n"), s);
        fputs(s == first ? "Usage: " : "       ", to);
        kvr_wrap(to, 7, 9, line);
    }
}

void kvr_args_help_common(FILE *to)
{
    for (const struct kvr_arg *a = kvr_args_common; a->name; a++)
        help_line(a, to);
    kvr_wrap_entry(to, HELP_COLUMN, "-h, --help", "show the command's help");
}

void kvr_args_help(const struct kvr_command *cmd, FILE *to)
{
    if (cmd->examples)
        fprintf(to, "Examples:\n%s\n", cmd->examples);
    print_usage(cmd, to);
    fputs("  ", to);
    kvr_wrap(to, 2, 2, cmd->summary);
    fprintf(to, "\nOptions:\n");
    for (const struct kvr_arg *a = cmd->args; a->name; a++)
        help_line(a, to);
    kvr_wrap_entry(to, HELP_COLUMN, "-h, --help",
                   "show this help; `kvreel --help` has the options of every command");
    if (cmd->details)
        fprintf(to, "\n%s", cmd->details);
}
