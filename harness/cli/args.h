/* args.h - a command's options as a table, from which parsing and --help are generated.
 *
 *     struct run_opts { const char *db; int jobs; bool json; };
 *     static const struct kvr_arg args[] = {
 *         KVR_ARG_TEXT(struct run_opts, db, "db", 0, "FILE", NULL, "the database"),
 *         KVR_ARG_INT(struct run_opts, jobs, "jobs", 'j', "N", "0", 0, 1024, "workers"),
 *         KVR_ARG_FLAG(struct run_opts, json, "json", 0, "print JSON"),
 *         { 0 },
 *     };
 *
 * The parser accepts --opt=value, --opt value, -j4 and -j 4. Positional arguments (words) may stand
 * between options; after `--` all arguments are words. Every command also accepts the options
 * --plugin and --cpu (kvr_args_common), before or after the command's name. String values are
 * borrowed from argv. */
#ifndef KVR_CLI_ARGS_H
#define KVR_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/core/status.h"

enum kvr_arg_type {
    KVR_ARG_T_END,
    KVR_ARG_T_FLAG, /* bool */
    KVR_ARG_T_TEXT, /* const char *; NULL if the option is not given and has no default */
    KVR_ARG_T_INT,  /* int */
    KVR_ARG_T_U64,  /* uint64_t */
    KVR_ARG_T_REAL, /* double */
    KVR_ARG_T_TIME, /* int: seconds, given as in "90s", "30m", "2h" or "90" (duration.h) */
    KVR_ARG_T_LIST, /* struct kvr_arg_list, for an option that may be repeated */
};

enum { KVR_ARG_LIST_MAX = 64 };

struct kvr_arg_list {
    int n;
    const char *v[KVR_ARG_LIST_MAX + 1]; /* NULL-terminated */
};

struct kvr_arg {
    const char *name; /* without the dashes */
    char letter;      /* 0: no short form */
    enum kvr_arg_type type;
    size_t offset;
    const char *value; /* placeholder of the value in the help, or NULL for a flag */
    const char *def;   /* default value as text (NULL: the value is 0) */
    double min, max;   /* INT, REAL, TIME (seconds) */
    const char *help;
};

#define KVR_ARG_FLAG(S, f, name, letter, help)                                                     \
    {                                                                                              \
        name, letter, KVR_ARG_T_FLAG, offsetof(S, f), NULL, NULL, 0, 0, help                       \
    }
#define KVR_ARG_TEXT(S, f, name, letter, value, def, help)                                         \
    {                                                                                              \
        name, letter, KVR_ARG_T_TEXT, offsetof(S, f), value, def, 0, 0, help                       \
    }
#define KVR_ARG_INT(S, f, name, letter, value, def, lo, hi, help)                                  \
    {                                                                                              \
        name, letter, KVR_ARG_T_INT, offsetof(S, f), value, def, lo, hi, help                      \
    }
#define KVR_ARG_U64(S, f, name, letter, value, def, help)                                          \
    {                                                                                              \
        name, letter, KVR_ARG_T_U64, offsetof(S, f), value, def, 0, 0, help                        \
    }
#define KVR_ARG_REAL(S, f, name, letter, value, def, lo, hi, help)                                 \
    {                                                                                              \
        name, letter, KVR_ARG_T_REAL, offsetof(S, f), value, def, lo, hi, help                     \
    }
#define KVR_ARG_TIME(S, f, name, letter, value, def, lo, hi, help)                                 \
    {                                                                                              \
        name, letter, KVR_ARG_T_TIME, offsetof(S, f), value, def, lo, hi, help                     \
    }
#define KVR_ARG_LIST(S, f, name, letter, value, help)                                              \
    {                                                                                              \
        name, letter, KVR_ARG_T_LIST, offsetof(S, f), value, NULL, 0, 0, help                      \
    }

struct kvr_call;

struct kvr_command {
    const char *name;
    const char *summary;  /* one-line summary, shown by `kvreel help` */
    const char *usage;    /* synopsis of the arguments, printed after "kvreel NAME "; one line per
                           * form of the command */
    const char *examples; /* example lines, printed before the usage; NULL for hidden commands */
    const char *details;  /* last part of the help text; may be NULL */
    const struct kvr_arg *args;
    size_t opts_size;
    int min_words, max_words;
    bool hidden, stops;                      /* `stops`: the command handles SIGINT, SIGTERM and
                                              * SIGUSR1 itself, to stop in an orderly way */
    int (*run)(const struct kvr_call *call); /* the exit code */
};

/* A parsed invocation. */
struct kvr_call {
    const struct kvr_command *command;
    const void *opts;   /* struct of the command's option values */
    const char **words; /* positional arguments, NULL-terminated */
    int n_words;
    bool help;                   /* true if -h or --help was given; later arguments were then not
                                  * parsed */
    struct kvr_arg_list plugins; /* --plugin */
    const char *cpu;             /* --cpu (NULL: not given) */
    int argc;                    /* argc and argv as passed to main() */
    char **argv;
};

/* The options --plugin and --cpu, which are stored in struct kvr_call. */
extern const struct kvr_arg kvr_args_common[];

/* Parses the options of kvr_args_common that precede the command's name, starting at argv[*at],
 * into `call`. Sets *at to the index of the first argument after these options. */
enum kvr_status kvr_args_leading(int argc, char **argv, int *at, struct kvr_call *call);

/* Parses the arguments argv[first..argc) of a command. Sets the command's options struct `opts` to
 * the default values, then writes the values of the given options to it. Writes positional
 * arguments to `words`, which must have room for argc + 1 pointers. The message of KVR_EINVAL gives
 * the option, the value and the limits. For an unknown option, the message suggests the nearest
 * name. */
enum kvr_status kvr_args_parse(const struct kvr_command *cmd, int argc, char **argv, int first,
                               void *opts, const char **words, struct kvr_call *call);

/* Writes the help text of one command: examples, usage, options, details. The
 * options of every command are not part of it. */
void kvr_args_help(const struct kvr_command *cmd, FILE *to);

/* Writes the help texts of the options of every command. */
void kvr_args_help_common(FILE *to);

#endif
