/* main.c - finds the command, parses its options and runs it. The exit code is the command's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/wrap.h"
#include "harness/core/isa.h"
#include "harness/core/json.h"
#include "harness/core/opts.h"
#include "methods/plugin.h"

/* Prints the commands with their summaries. */
static void list_commands(FILE *to)
{
    size_t width = 0;

    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden && strlen(kvr_commands[i]->name) > width)
            width = strlen(kvr_commands[i]->name);
    for (int i = 0; kvr_commands[i]; i++)
        if (!kvr_commands[i]->hidden)
            kvr_wrap_entry(to, width + 3, kvr_commands[i]->name, kvr_commands[i]->summary);
}

static void help(FILE *to)
{
    fputs("Examples:\n"
          "  kvreel list methods                        # methods that can be measured\n"
          "  kvreel run configs/demo.yaml               # a sweep; run it again and it resumes\n"
          "  kvreel query 'SELECT * FROM summary'       # ask the database\n"
          "\n"
          "Usage: kvreel [--plugin FILE] [--cpu NAME] COMMAND [options]\n"
          "  Benchmarks KV-cache compression for autoregressive video diffusion.\n"
          "\nCommands:\n",
          to);
    list_commands(to);
    fputs("\nOptions of every command:\n", to);
    kvr_args_help_common(to);
    fputs("\n`kvreel COMMAND --help` has options and examples.\n\nExit codes:\n", to);
    for (const struct kvr_exit_meaning *e = kvr_exit_meanings; e->meaning; e++)
        fprintf(to, "  %2d  %s\n", e->code, e->meaning);
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
        kvr_fail(KVR_EINVAL, "unknown command '%s'; `kvreel help` lists commands", word);
    return kvr_cli_fail(KVR_EINVAL);
}

/* Chooses the CPU kernels: variant `name`, or if NULL the one in KVREEL_CPU, or else the fastest
 * that this CPU supports. Stores `name` in KVREEL_CPU, so that worker processes use the same
 * variant. */
static int choose_cpu(const char *name)
{
    enum kvr_status st = kvr_isa_force(name);

    if (st == KVR_OK && name && setenv("KVREEL_CPU", name, 1) != 0)
        st = kvr_fail(KVR_ENOMEM, "out of memory while allocating the environment");
    return st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
}

/* Loads the plug-ins in the list. This must precede the command, because plug-ins add methods to
 * the registry that commands read. */
static int load_plugins(const struct kvr_arg_list *list)
{
    for (int i = 0; i < list->n; i++) {
        enum kvr_status st = kvr_plugin_load(list->v[i]);

        if (st != KVR_OK)
            return kvr_cli_fail(st);
    }
    return KVR_EXIT_OK;
}

/* Blocks (hold true) or unblocks SIGINT, SIGTERM and SIGUSR1. main() blocks them at once, and they
 * stay blocked across the exec in limit_spinning(). A command that handles signals reads the
 * pending ones from a signalfd; for every other command, run() unblocks them. */
static void hold_signals(bool hold)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &mask, NULL);
}

static int report_losses(int code)
{
    if (!kvr_json_losses())
        return code;
    fprintf(stderr, "kvreel: the JSON library ran out of memory: the output is incomplete\n");
    return code == KVR_EXIT_OK ? KVR_EXIT_INTERNAL : code;
}

/* Parses the options of a command, which start at argv[first], and runs the command. `leading` has
 * the options that preceded the command's name. */
static int run(const struct kvr_command *cmd, int argc, char **argv, int first,
               const struct kvr_call *leading)
{
    void *opts = calloc(1, cmd->opts_size);
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    struct kvr_call call;
    enum kvr_status st;
    int code;

    if (!cmd->stops)
        hold_signals(false);
    if (!opts || !words)
        st = kvr_fail(KVR_ENOMEM, "out of memory while allocating the command line");
    else
        st = kvr_args_parse(cmd, argc, argv, first, opts, words, &call);
    if (st != KVR_OK) {
        code = kvr_cli_fail(st);
    } else if (call.help) {
        kvr_args_help(cmd, stdout);
        code = KVR_EXIT_OK;
    } else {
        if (!cmd->hidden) /* the hidden command is `worker`, whose parent has checked the
                           * environment */
            kvr_environment_check(stderr);
        code = choose_cpu(call.cpu ? call.cpu : leading->cpu);
        if (code == KVR_EXIT_OK)
            code = load_plugins(&leading->plugins);
        if (code == KVR_EXIT_OK)
            code = load_plugins(&call.plugins);
        if (code == KVR_EXIT_OK)
            code = cmd->run(&call);
        if (!cmd->hidden) /* a worker reports losses of JSON members in its answer */
            code = report_losses(code);
    }
    free(words);
    free(opts);
    return code;
}

/* Data that did not reach stdout (a full disk) is an error; a closed pipe is not. */
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
    struct kvr_call leading = { 0 };
    const struct kvr_command *cmd;
    const char *word;
    int at = 1;

    if (kvr_args_leading(argc, argv, &at, &leading) != KVR_OK)
        return kvr_cli_fail(KVR_EINVAL);
    word = at < argc ? argv[at] : NULL;
    if (!word) {
        help(stderr);
        return KVR_EXIT_USAGE;
    }
    if (strcmp(word, "--version") == 0)
        word = "version";
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "help") == 0) {
        if (argc > at + 1) {
            cmd = kvr_command_find(argv[at + 1]);
            if (!cmd)
                return unknown(argv[at + 1]);
            kvr_args_help(cmd, stdout);
        } else {
            help(stdout);
        }
        return KVR_EXIT_OK;
    }
    cmd = kvr_command_find(word);
    if (!cmd)
        return unknown(word);
    return run(cmd, argc, argv, at + 1, &leading);
}

/* libgomp's threads spin while they wait at a barrier. Without a limit, spinning threads occupy
 * cores that other threads need: rollouts of half a second took up to 30 s on a busy machine. With
 * no spinning at all, threads sleep at each barrier, and two threads computed attention on BF16
 * tiles more slowly than one thread. The limit of 1500 spin iterations takes 30 to 60 us. libgomp
 * reads the limit GOMP_SPINCOUNT when it is loaded, so the program sets the variable and executes
 * itself again. */
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1500", 1) == 0)
        execv("/proc/self/exe", argv); /* returns only if /proc is missing; libgomp then spins by
                                        * its default limit */
}

/* If one of the standard descriptors is closed, the next opened file would get its number and
 * receive the output. Opens closed ones on /dev/null: stdin only for writing and stdout only for
 * reading, so that their usual access still fails. */
static void fill_standard_files(void)
{
    static const int modes[] = { O_WRONLY, O_RDONLY, O_WRONLY };

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
            _exit(KVR_EXIT_INTERNAL);
}

/* Makes malloc() keep freed blocks mapped: the page faults of a new 9 MB block take longer than
 * quantizing its contents. */
static void keep_pages(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

int main(int argc, char **argv)
{
    keep_pages();
    hold_signals(true);
    fill_standard_files();
    limit_spinning(argv);
    /* Ignores SIGPIPE and SIGXFSZ, so that write() fails with EPIPE (closed pipe) or EFBIG (file
     * size limit) instead of ending the process. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return finish(dispatch(argc, argv));
}
