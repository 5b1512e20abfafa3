/* cmd_plugin.c - `kvreel plugin`: `new` writes the template of a method, `check` runs the contract
 * tests.
 *
 * Each check runs in a process of its own, so a crash is reported like any other failure. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cache/conform.h"
#include "harness/cli/cli.h"
#include "harness/cli/plugin_new.h"
#include "harness/core/join.h"
#include "harness/device/names.h"
#include "methods/plugin.h"

struct plugin_opts {
    const char *method, *device, *out;
    int timeout_s;
    bool json;
};

/* Result of one check, which the child writes to a pipe. */
struct check_result {
    enum kvr_status st;
    char text[512];
};

struct tally {
    int ok, failed, left_out;
};

/* ---- one check, in a child --------------------------------------------------------------- */

/* Opens a second device, on which the check compares results with the CPU: the requested one, or by
 * default CUDA or the emulated device, if this build has one. */
static void open_other(const char *name, struct kvr_conform *c, enum kvr_status *st)
{
    static const char *const devices[] = { "cuda", "emulated", NULL };

    if (name && kvr_dev_open_named(&c->other, name) != KVR_OK)
        *st = KVR_EINVAL; /* error if the requested device is absent */
    for (int i = 0; !name && !c->other && devices[i]; i++)
        kvr_dev_open_named(&c->other, devices[i]);
}

static void run_check(const struct plugin_opts *o, const char *method,
                      const struct kvr_conform_check *k, struct check_result *t)
{
    struct kvr_conform c = { .method = method };
    enum kvr_status st = kvr_dev_open(&c.dev, KVR_CPU);

    if (st == KVR_OK && strcmp(k->name, "device") == 0)
        open_other(o->device, &c, &st);
    if (st == KVR_OK)
        st = kvr_conform_shape(&c);
    if (st == KVR_OK)
        st = k->run(&c);
    t->st = st;
    snprintf(t->text, sizeof t->text, "%s", st == KVR_OK ? c.finding : kvr_error());
    kvr_dev_close(&c.other);
    kvr_dev_close(&c.dev);
}

static void read_all(int fd, struct check_result *t)
{
    size_t n = 0;
    ssize_t got;

    while (n < sizeof *t && (got = read(fd, (char *)t + n, sizeof *t - n)) > 0)
        n += (size_t)got;
    if (n != sizeof *t)
        *t = (struct check_result){ .st = KVR_EINTERNAL };
}

static enum kvr_status in_child(const struct plugin_opts *o, const char *method,
                                const struct kvr_conform_check *k, struct check_result *t)
{
    int fd[2], status = 0;
    pid_t pid;

    *t = (struct check_result){ .st = KVR_OK };
    fflush(stdout);
    if (pipe(fd) != 0)
        return kvr_fail(KVR_EIO, "plugin: cannot create a pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0) {
        close(fd[0]);
        close(fd[1]);
        return kvr_fail(KVR_EIO, "plugin: cannot start a process: %s", strerror(errno));
    }
    if (pid == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        alarm((unsigned)o->timeout_s); /* the default action of SIGALRM ends the process */
        run_check(o, method, k, t);
        _exit(write(fd[1], t, sizeof *t) == (ssize_t)sizeof *t ? 0 : 1);
    }
    close(fd[1]);
    read_all(fd[0], t);
    close(fd[0]);
    if (waitpid(pid, &status, 0) != pid)
        return kvr_fail(KVR_EIO, "plugin: waitpid: the child process of a check was not found");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        t->st = KVR_EINTERNAL;
        snprintf(t->text, sizeof t->text, "not finished after %d s, the limit set by --timeout",
                 o->timeout_s);
    } else if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));

        t->st = KVR_EINTERNAL;
        snprintf(t->text, sizeof t->text, "the process of this check crashed: SIG%s",
                 name ? name : "?");
    } else if (WEXITSTATUS(status) != 0) {
        t->st = KVR_EINTERNAL;
        snprintf(t->text, sizeof t->text, "the process of this check ended with exit code %d",
                 WEXITSTATUS(status));
    }
    return KVR_OK;
}

/* ---- a whole plug-in --------------------------------------------------------------------- */

static enum kvr_status add_row(json_t *rows, const char *method, const char *check,
                               const char *asks, const char *verdict, const char *finding)
{
    return json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "method", method,
                                                 "check", check, "verdict", verdict, "said",
                                                 finding, "asks", asks))
               ? kvr_fail(KVR_ENOMEM, "plugin: out of memory while adding check %s of method %s",
                          check, method)
               : KVR_OK;
}

/* Runs every check on a method; a check that does not apply counts as neither passed nor failed. */
static enum kvr_status check_method(const struct plugin_opts *o, const char *method, json_t *rows,
                                    struct tally *n)
{
    for (const struct kvr_conform_check *k = kvr_conform_checks; k->name; k++) {
        struct check_result t;

        KVR_TRY(in_child(o, method, k, &t));
        n->ok += t.st == KVR_OK;
        n->left_out += t.st == KVR_EUNSUPPORTED;
        n->failed += t.st != KVR_OK && t.st != KVR_EUNSUPPORTED;
        KVR_TRY(add_row(rows, method, k->name, k->asks,
                        t.st == KVR_OK             ? "ok"
                        : t.st == KVR_EUNSUPPORTED ? "does not apply"
                                                   : "FAILED",
                        t.text));
    }
    return KVR_OK;
}

static enum kvr_status method_uses(const char *method, const struct kvr_stage *stage, bool *out)
{
    struct kvr_scheme *p;
    const enum kvr_status st = kvr_scheme_open(&p, method, NULL, 0);
    bool found = false;

    *out = false;
    if (st != KVR_OK)
        return st == KVR_ENOMEM ? st : KVR_OK;
    for (int t = 0; t < p->n_tiers; t++)
        for (int i = 0; i < KVR_MAX_STAGES; i++)
            found = found || (i < p->k[t]->n_stages && p->k[t]->stage[i].stage == stage) ||
                    (i < p->v[t]->n_stages && p->v[t]->stage[i].stage == stage);
    kvr_scheme_close(&p);
    *out = found;
    return KVR_OK;
}

/* Lists the plug-in's stages that none of its methods uses, because stages are tested only within a
 * method. */
static enum kvr_status name_unused(const struct kvr_plugin *p, json_t *rows, struct tally *n)
{
    for (int i = 0; p->stages && p->stages[i]; i++) {
        bool used = false;

        for (int m = 0; p->methods && p->methods[m] && !used; m++)
            KVR_TRY(method_uses(p->methods[m]->name, p->stages[i], &used));
        n->left_out += !used;
        if (!used)
            KVR_TRY(add_row(rows, "", p->stages[i]->name, "a stage is tested as a part of a method",
                            "does not apply",
                            "no method of the plug-in uses this stage; to test the stage, add a "
                            "method that uses it"));
    }
    return KVR_OK;
}

/* Writes the names of the plug-in's methods to buf [n], and returns buf, or "none". */
static const char *methods_of(const struct kvr_plugin *p, char *buf, size_t n)
{
    buf[0] = 0;
    for (int m = 0; p->methods && p->methods[m]; m++)
        kvr_join(buf, n, p->methods[m]->name);
    return buf[0] ? buf : "none";
}

static enum kvr_status check_all(const struct plugin_opts *o, const struct kvr_plugin *p,
                                 json_t *rows, struct tally *n)
{
    int tried = 0;

    for (int m = 0; p->methods && p->methods[m]; m++)
        if (!o->method || strcmp(o->method, p->methods[m]->name) == 0) {
            KVR_TRY(check_method(o, p->methods[m]->name, rows, n));
            tried++;
        }
    if (o->method && !tried) {
        char names[256];

        return kvr_fail(KVR_ENOTFOUND, "plugin: %s has no method %s (--method); its methods: %s",
                        p->name, o->method, methods_of(p, names, sizeof names));
    }
    return o->method ? KVR_OK : name_unused(p, rows, n);
}

/* Loads the plug-in at `path` and returns its entry in the list of loaded plug-ins. */
static enum kvr_status load(const char *path, const struct kvr_loaded_plugin **out)
{
    char real[PATH_MAX];
    const char *full;

    KVR_TRY(kvr_plugin_load(path));
    full = realpath(path, real);
    for (int i = 0; (*out = kvr_plugin_at(i)) != NULL; i++)
        if (full && strcmp((*out)->path, full) == 0)
            break;
    return *out ? KVR_OK
                : kvr_fail(KVR_EINTERNAL,
                           "plugin: file %s was loaded, but is not in the list of plug-ins", path);
}

static int print(const struct plugin_opts *o, const struct kvr_loaded_plugin *p, json_t *rows,
                 const struct tally *n)
{
    static const char *const columns[] = { "method", "check", "verdict", "said", NULL };
    const int code = n->failed ? KVR_EXIT_TOLERANCE : n->ok ? KVR_EXIT_OK : KVR_EXIT_NOTHING;
    enum kvr_status st;

    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:O}", "name",
                                      p->plugin->name, "version", p->plugin->version, "sha256",
                                      p->sha256, "ok", n->ok, "failed", n->failed, "left_out",
                                      n->left_out, "checks", rows),
                            code);
    st = kvr_cli_table(rows, columns);
    printf("%s %s: %d checks passed, %d failed, %d not applicable\n", p->plugin->name,
           p->plugin->version, n->ok, n->failed, n->left_out);
    return kvr_cli_wrote(st, code);
}

static int run(const struct kvr_call *call)
{
    const struct plugin_opts *o = call->opts;
    const struct kvr_loaded_plugin *p;
    struct tally n = { 0 };
    json_t *rows;
    enum kvr_status st;
    int code;

    if (strcmp(call->words[0], "new") == 0) {
        st = kvr_cli_plugin_new(call->words[1], o->out);
        return st == KVR_OK ? kvr_cli_wrote(KVR_OK, KVR_EXIT_OK) : kvr_cli_fail(st);
    }
    if (strcmp(call->words[0], "check") != 0)
        return kvr_cli_fail(kvr_fail(KVR_EINVAL,
                                     "plugin: unknown action '%.40s', need new or check; usage: "
                                     "kvreel plugin new NAME, kvreel plugin check FILE",
                                     call->words[0]));
    st = load(call->words[1], &p);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    rows = json_array();
    st = rows ? check_all(o, p->plugin, rows, &n)
              : kvr_fail(KVR_ENOMEM, "plugin: out of memory while checking %s", call->words[1]);
    code = st == KVR_OK ? print(o, p, rows, &n) : kvr_cli_fail(st);
    json_decref(rows);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct plugin_opts, method, "method", 'm', "METHOD", NULL,
                 "check only this method of the plug-in; the default is all its methods"),
    KVR_ARG_TEXT(struct plugin_opts, device, "device", 0, "NAME", NULL,
                 "device whose stored bytes are compared with the CPU's: cuda or emulated; the "
                 "default is the one that this build supports"),
    KVR_ARG_TIME(struct plugin_opts, timeout_s, "timeout", 0, "TIME", "300", 1, 86400,
                 "time limit of each check, in seconds or with a unit as in 30m (at most 24h)"),
    KVR_ARG_TEXT(struct plugin_opts, out, "out", 'o', "DIR", ".",
                 "for `new`: folder in which the method's file and its test are created"),
    KVR_ARG_FLAG(struct plugin_opts, json, "json", 0, "print the result of each check as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_plugin = {
    .name = "plugin",
    .summary = "write a method of your own, or check that a plug-in's methods work",
    .usage = "new NAME [-o DIR] | check FILE.so|FILE.py [-m METHOD] [--json]",
    .examples = "  kvreel plugin new MINE\n"
                "  kvreel plugin check ./mine.so\n"
                "  kvreel plugin check out/own/int8.py -m TORCH_INT8\n"
                "  kvreel plugin check ./mine.so --json | jq '.checks[] | select(.verdict == "
                "\"FAILED\")'\n",
    .details =
        "`plugin new` writes NAME.py, a working method in Python, and its test, test_NAME.py.\n"
        "`plugin check` runs each check in its own process, on one layer. Decoded values must\n"
        "be finite, with a relative squared error of at most 1. Allocated bytes must equal the\n"
        "bytes that the method declares. Equal input must give equal bytes for any number of\n"
        "threads, and different input must give different bytes. Decoding some tokens must give\n"
        "the same values as decoding all. Zeros, constants, outliers, tiny and large numbers must\n"
        "be accepted, and NaN must stay NaN. A failed allocation must be reported and leak\n"
        "nothing. Another device (CUDA or emulated) must store the CPU's bytes. Each option must\n"
        "work at both of its bounds.\n"
        "The exit code is 4 if a check failed, and 5 if there was nothing to check.\n",
    .args = args,
    .opts_size = sizeof(struct plugin_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
