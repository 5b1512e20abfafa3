/* main.c - find the command, parse its options, run it; the exit code is the command's. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/core/opts.h"

static void help(FILE *to)
{
    fputs("Examples:\n"
          "  kvreel list methods                        # what can be measured\n"
          "  kvreel run configs/demo.yaml               # a sweep; run it again and it resumes\n"
          "  kvreel query 'SELECT * FROM summary'       # ask the database\n"
          "\n"
          "Usage: kvreel COMMAND [options]\n"
          "  Which way of compressing the KV cache helps an autoregressive video model?\n"
          "\nCommands:\n",
          to);
    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden)
            fprintf(to, "  %-10s %s\n", kvr_commands[i]->name, kvr_commands[i]->summary);
    fputs("\n`kvreel COMMAND --help` says more.\n"
          "Exit codes: 0 done, 1 internal error, 2 usage or configuration, 3 cells failed,\n"
          "4 out of tolerance, 5 nothing was measured, 75 interrupted (run again to resume).\n",
          to);
}

static int unknown(const char *word)
{
    const char *names[64];
    int n = 0;
    const char *near;

    for (int i = 0; kvr_commands[i] && n < 62; i++)
        if (!kvr_commands[i]->hidden)
            names[n++] = kvr_commands[i]->name;
    names[n] = NULL;
    near = kvr_nearest(word, names);
    if (near)
        kvr_fail(KVR_EINVAL, "unknown command '%s'; did you mean '%s'?", word, near);
    else
        kvr_fail(KVR_EINVAL, "unknown command '%s'; `kvreel help` lists them", word);
    return kvr_cli_fail(KVR_EINVAL);
}

static int run(const struct kvr_command *cmd, int argc, char **argv)
{
    void *opts = calloc(1, cmd->opts_size);
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    struct kvr_call call;
    enum kvr_status st;
    int code;

    if (!opts || !words)
        st = kvr_fail(KVR_ENOMEM, "no memory for the command line");
    else
        st = kvr_args_parse(cmd, argc, argv, 2, opts, words, &call);
    if (st != KVR_OK) {
        code = kvr_cli_fail(st);
    } else if (call.help) {
        kvr_args_help(cmd, stdout);
        code = KVR_EXIT_OK;
    } else {
        code = cmd->run(&call);
    }
    free(words);
    free(opts);
    return code;
}

/* Data that did not reach stdout (a full disk) is an error; a reader who left is not. */
static int finish(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != KVR_EXIT_OK || kvr_cli_reader_left())
        return code;
    fprintf(stderr, "kvreel: stdout: %s\n", errno ? strerror(errno) : "write failed");
    return KVR_EXIT_INTERNAL;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    const struct kvr_command *cmd;

    if (!word) {
        help(stderr);
        return KVR_EXIT_USAGE;
    }
    if (strcmp(word, "--version") == 0)
        word = "version";
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "help") == 0) {
        if (argc > 2) {
            cmd = kvr_command_find(argv[2]);
            if (!cmd)
                return unknown(argv[2]);
            kvr_args_help(cmd, stdout);
        } else {
            help(stdout);
        }
        return KVR_EXIT_OK;
    }
    cmd = kvr_command_find(word);
    return cmd ? run(cmd, argc, argv) : unknown(word);
}

/* libgomp's threads spin while they wait, and on a machine that has other work each of them
 * burns the core that the one it waits for needs: rollouts of half a second were seen to take
 * thirty. The policy is read when the library is loaded, so the program starts itself again. */
static void wait_quietly(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv); /* returns when there is no /proc: then it is only slower */
}

int main(int argc, char **argv)
{
    wait_quietly(argv);
    /* A reader that goes away, or a worker that dies, shows up as EPIPE. */
    signal(SIGPIPE, SIG_IGN);
    return finish(dispatch(argc, argv));
}
