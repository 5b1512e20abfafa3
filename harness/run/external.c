/* external.c - splits the command, starts the program, waits, parses its output. */
#include "harness/run/external.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/json.h"
#include "harness/core/memtext.h"
#include "harness/core/clock.h"

enum { MAX_WORDS = 256, MAX_OUTPUT = 1 << 20, EXEC_FAILED = 127, SHELL_SIGNAL = 128 };

/* --- words ------------------------------------------------------------------------------ */

struct words {
    int n;
    char *word[MAX_WORDS + 1]; /* NULL-terminated; owned */
};

static void words_free(struct words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->word[i]);
}

/* Writes `text` to *out, with the placeholders {video}, {frames} and {reference} replaced by
 * paths. */
static enum kvr_status substitute(const struct kvr_external *e, const char *text, char **out)
{
    const struct {
        const char *name, *value;
    } holders[] = { { "{video}", e->video },
                    { "{frames}", e->frames },
                    { "{reference}", e->reference } };
    size_t n = 0;
    FILE *f = kvr_text_open(out, &n);

    if (!f)
        return kvr_fail(KVR_ENOMEM, "external: out of memory");
    while (*text) {
        bool found = false;

        for (size_t i = 0; i < 3 && !found; i++)
            if (strncmp(text, holders[i].name, strlen(holders[i].name)) == 0) {
                if (!holders[i].value) {
                    fclose(f);
                    free(*out);
                    return kvr_fail(
                        KVR_ENOTFOUND,
                        "the metric command contains %s, but this cell has no such file",
                        holders[i].name);
                }
                fputs(holders[i].value, f);
                text += strlen(holders[i].name);
                found = true;
            }
        if (!found)
            fputc(*text++, f);
    }
    if (!kvr_text_close(f, out))
        return kvr_fail(KVR_ENOMEM, "external: out of memory");
    return KVR_OK;
}

/* Copies the next word of command *p into `word`, a buffer as large as the command. False: no
 * further word. */
static bool next_word(const char **p, char *word, bool *open_quote)
{
    const char *s = *p + strspn(*p, " \t\n");
    char quote = 0;
    size_t n = 0;

    *open_quote = false;
    if (!*s)
        return false;
    for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
        if (*s == quote)
            quote = 0;
        else if (!quote && (*s == '\'' || *s == '"'))
            quote = *s;
        else if (*s == '\\' && quote != '\'' && s[1])
            word[n++] = *++s;
        else
            word[n++] = *s;
    }
    word[n] = 0;
    *open_quote = quote != 0;
    *p = s;
    return true;
}

static enum kvr_status split(const struct kvr_external *e, struct words *w)
{
    const char *p = e->command;
    char *word = calloc(1, strlen(p) + 1);
    enum kvr_status st = word ? KVR_OK : kvr_fail(KVR_ENOMEM, "external: out of memory");
    bool open_quote;

    while (st == KVR_OK && next_word(&p, word, &open_quote)) {
        if (open_quote)
            st = kvr_fail(KVR_EINVAL, "the metric command has an unclosed quote: %s", e->command);
        else if (w->n == MAX_WORDS)
            st = kvr_fail(KVR_EINVAL, "the metric command has more than %d words: %s", MAX_WORDS,
                          e->command);
        else
            st = substitute(e, word, &w->word[w->n]);
        w->n += st == KVR_OK;
    }
    if (st == KVR_OK && w->n == 0)
        st = kvr_fail(KVR_EINVAL, "the metric command is empty, need a program and its arguments");
    free(word);
    return st;
}

/* --- the process ------------------------------------------------------------------------ */

/* Becomes the metric program, in the child process. The child starts a process group of its own, so
 * that a timeout kills all its processes. The kernel kills the child when the parent dies. */
static void become(const struct kvr_sandbox *s, int out)
{
    int in = open("/dev/null", O_RDONLY);

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (in >= 0)
        dup2(in, 0);
    dup2(out, 1);
    kvr_sandbox_enter(s);
    execvpe(s->argv[0], s->argv, s->env);
    _exit(EXEC_FAILED);
}

struct output {
    char *text; /* [MAX_OUTPUT + 1], NUL-terminated */
    size_t n;
    bool ended;
};

/* Reads available output. */
static void drain(struct output *o, int fd)
{
    while (!o->ended) {
        ssize_t k = read(fd, o->text + o->n, MAX_OUTPUT - o->n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN)
            return;
        o->ended = k <= 0; /* end of output, or buffer full */
        o->n += k > 0 ? (size_t)k : 0;
    }
}

/* Waits until the program ends or prints too much. False: timeout. */
static bool wait_for(int pid_fd, int out_fd, int timeout_s, struct output *o)
{
    const int64_t deadline = kvr_now_ns() + (int64_t)timeout_s * 1000000000;

    for (;;) {
        struct pollfd fds[2] = { { .fd = pid_fd, .events = POLLIN },
                                 { .fd = o->ended ? -1 : out_fd, .events = POLLIN } };
        int64_t left = (deadline - kvr_now_ns()) / 1000000;

        if (left <= 0)
            return false;
        if (poll(fds, 2, left < 1000 ? (int)left + 1 : 1000) < 0 && errno != EINTR)
            return false;
        drain(o, out_fd);
        if (fds[0].revents || o->n == MAX_OUTPUT)
            return true;
    }
}

/* The signal that ended the program; 0 if it exited by itself. bwrap exits with 128 + the signal,
 * like a shell. */
static int signal_of(int status, enum kvr_sandbox_kind kind)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) - SHELL_SIGNAL : 0;

    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return kind == KVR_SANDBOX_BWRAP && code > 0 && sigabbrev_np(code) ? code : 0;
}

static enum kvr_status judge(const char *program, enum kvr_sandbox_kind kind, int status,
                             const struct output *o)
{
    const int sig = signal_of(status, kind);

    if (o->n == MAX_OUTPUT) /* killed because it printed too much */
        return kvr_fail(KVR_EFORMAT, "%s: the metric program printed more than %d bytes, the limit",
                        program, MAX_OUTPUT);
    if (sig)
        return kvr_fail(KVR_EIO, "%s: the metric program was killed by signal %d (SIG%s)", program,
                        sig, sigabbrev_np(sig) ? sigabbrev_np(sig) : "?");
    if (WEXITSTATUS(status) == KVR_SANDBOX_FAILED && o->n == 0 && kind == KVR_SANDBOX_LANDLOCK)
        return kvr_fail(KVR_EIO,
                        "%s: the sandbox could not be created, or the metric program ended itself "
                        "with exit code %d",
                        program, KVR_SANDBOX_FAILED);
    if (WEXITSTATUS(status) == EXEC_FAILED && o->n == 0)
        return kvr_fail(
            KVR_ENOTFOUND,
            "%s: the metric program could not be started, or ended itself with exit code %d",
            program, EXEC_FAILED);
    if (WEXITSTATUS(status) != 0)
        return kvr_fail(KVR_EIO, "%s: the metric program exited with code %d", program,
                        WEXITSTATUS(status));
    return KVR_OK;
}

static enum kvr_status run(const char *program, const struct kvr_sandbox *s, int timeout_s,
                           struct output *o)
{
    int p[2], pid_fd = -1, status = 0, err;
    bool in_time = false;
    pid_t pid;

    if (pipe2(p, O_CLOEXEC) != 0)
        return kvr_fail(KVR_EIO, "external: cannot create a pipe to the metric program: %s",
                        strerror(errno));
    pid = fork();
    if (pid == 0)
        become(s, p[1]);
    err = errno;
    close(p[1]);
    if (pid > 0) {
        fcntl(p[0], F_SETFL, O_NONBLOCK);
        pid_fd = pidfd_open(pid, 0);
        err = errno;
        in_time = pid_fd >= 0 && wait_for(pid_fd, p[0], timeout_s, o);
        kill(-pid, SIGKILL); /* may fail: the child may not have created its group yet */
        if (!in_time)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        drain(o, p[0]);
    }
    close(p[0]);
    if (pid_fd >= 0)
        close(pid_fd);
    o->text[o->n] = 0;
    if (pid < 0 || pid_fd < 0)
        return kvr_fail(err == ENOMEM ? KVR_ENOMEM : KVR_EIO,
                        "%s: cannot start the metric program: %s: %s", program,
                        pid < 0 ? "fork" : "pidfd_open", strerror(err));
    if (!in_time)
        return kvr_fail(
            KVR_EIO,
            "%s: the metric program was stopped: not finished after %d s, the limit (timeout_s)",
            program, timeout_s);
    return judge(program, s->kind, status, o);
}

/* --- output ----------------------------------------------------------------------------- */

static enum kvr_status refuse_score(const char *program, const char *key, const json_t *value)
{
    char *text;
    enum kvr_status st;

    if (strcmp(key, "sandbox") == 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the metric program printed the score 'sandbox', a reserved name",
                        program);
    text = kvr_json_text(value, JSON_COMPACT | JSON_ENCODE_ANY);
    st = kvr_fail(KVR_EFORMAT, "%s: the score '%s' is not a number: %.80s", program, key,
                  text ? text : "?");
    free(text);
    return st;
}

static enum kvr_status parse(const char *program, const struct output *o, json_t **out)
{
    json_t *doc, *value;
    const char *key;
    enum kvr_status st = kvr_json_parse(&doc, o->text, strlen(o->text), "its output");

    if (st != KVR_OK)
        return kvr_fail_prefix(st, "%s: the metric program printed no JSON", program);
    if (!json_is_object(doc) || json_object_size(doc) == 0)
        st = kvr_fail(
            KVR_EFORMAT,
            "%s: the metric program printed %s, need a JSON object with a number per score name",
            program,
            json_is_object(doc)  ? "an empty JSON object"
            : json_is_array(doc) ? "a JSON list"
                                 : "a single JSON value");
    json_object_foreach(doc, key, value)
    {
        const bool score =
            json_is_number(value) || json_is_null(value) || kvr_json_not_finite(value);

        if (st == KVR_OK && (!score || strcmp(key, "sandbox") == 0))
            st = refuse_score(program, key, value);
    }
    if (st == KVR_OK)
        *out = doc;
    else
        json_decref(doc);
    return st;
}

static enum kvr_status run_sandboxed(const struct kvr_external *e, const struct words *w,
                                     struct output *o, const char **unsandboxed)
{
    const char *const files[KVR_SANDBOX_FILES] = { e->video, e->frames, e->reference };
    struct kvr_sandbox s;
    enum kvr_status st;

    KVR_TRY(kvr_sandbox_open(&s, e->sandbox, w->word, files, e->timeout_s));
    *unsandboxed = s.lacks;
    st = run(w->word[0], &s, e->timeout_s, o);
    kvr_sandbox_close(&s);
    return st;
}

enum kvr_status kvr_external_run(const struct kvr_external *e, json_t **out,
                                 const char **unsandboxed)
{
    struct output o = { .text = malloc(MAX_OUTPUT + 1) };
    struct words w = { 0 };
    enum kvr_status st = o.text ? split(e, &w) : kvr_fail(KVR_ENOMEM, "external: out of memory");

    *out = NULL;
    *unsandboxed = "the metric program was not started";
    if (st == KVR_OK)
        st = run_sandboxed(e, &w, &o, unsandboxed);
    if (st == KVR_OK)
        st = parse(w.word[0], &o, out);
    words_free(&w);
    free(o.text);
    return st;
}
