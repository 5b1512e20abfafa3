/* talk.c - starts a Python process, sends it requests and receives its answers over a socket. */
#include "methods/script/talk.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/clock.h"

extern char **environ;
extern const char kvr_python_host[]; /* host.py */

enum {
    AT = 3,
    START_MS = 60000,
    NS_PER_MS = 1000000,
    WORDS = 1 + 3 + KVR_TALK_PARTS,
    LONGEST = 1 << 16
};

/* Status of a reply: success, an exception, or out of memory. The values must equal those in
 * host.py. */
enum { REPLY_OK, REPLY_EXCEPTION, REPLY_NOMEM };

static const char *interpreter(void)
{
    const char *named = getenv("KVREEL_PYTHON");

    return named && *named ? named : "python3";
}

static enum kvr_status spawn(struct kvr_talk *t, const char *path, const char *role, int theirs)
{
    char *const argv[] = { (char *)(uintptr_t)interpreter(),
                           (char *)(uintptr_t) "-c",
                           (char *)(uintptr_t)kvr_python_host,
                           (char *)(uintptr_t)role,
                           (char *)(uintptr_t)path,
                           NULL };
    posix_spawn_file_actions_t files;
    int rc;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    posix_spawn_file_actions_adddup2(&files, theirs, AT);
    rc = posix_spawnp(&t->pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (rc == 0)
        return KVR_OK;
    t->pid = 0;
    return kvr_fail(KVR_EUNSUPPORTED,
                    "cannot start '%s': %s; set KVREEL_PYTHON to a Python interpreter", argv[0],
                    strerror(rc));
}

void kvr_talk_end(struct kvr_talk *t)
{
    if (!t->pid)
        return;
    close(t->fd);
    kill(t->pid, SIGKILL);
    while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *t = (struct kvr_talk){ 0 };
}

/* Handles a closed connection: waits up to 2 s for the process to exit, so that its exit status can
 * be reported. */
static enum kvr_status fail_exited(struct kvr_talk *t)
{
    enum { ROUNDS = 200, ROUND_US = 10000 };
    int status = 0;
    pid_t got = 0;

    for (int i = 0; i < ROUNDS && got == 0; i++) {
        got = waitpid(t->pid, &status, WNOHANG);
        if (got == 0)
            usleep(ROUND_US);
    }
    if (got == t->pid)
        t->pid = 0;
    close(t->fd);
    if (t->pid)
        kill(t->pid, SIGKILL), waitpid(t->pid, NULL, 0);
    *t = (struct kvr_talk){ 0 };
    if (got > 0 && WIFSIGNALED(status))
        return kvr_fail(KVR_EIO, "the Python process was killed by signal %d (%s)",
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (got > 0 && WIFEXITED(status))
        return kvr_fail(KVR_EIO, "the Python process exited with status %d before it answered",
                        WEXITSTATUS(status));
    return kvr_fail(
        KVR_EIO, "the Python process closed the connection to kvreel, but did not exit within %d s",
        ROUNDS * ROUND_US / 1000000);
}

static enum kvr_status send_all(struct kvr_talk *t, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t k = send(t->fd, (const char *)p + at, n - at, MSG_NOSIGNAL);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail_exited(t);
        at += (size_t)k;
    }
    return KVR_OK;
}

/* Waits for bytes of the first message, whose time limit is t->until_ns. Later messages have no
 * limit. */
static enum kvr_status await(const struct kvr_talk *t)
{
    struct pollfd ready = { .fd = t->fd, .events = POLLIN };
    int rc = t->until_ns ? -1 : 1;

    while (rc < 0) {
        const int64_t left_ms = (t->until_ns - kvr_now_ns() + NS_PER_MS - 1) / NS_PER_MS;

        rc = poll(&ready, 1, left_ms > 0 ? (int)left_ms : 0);
        if (rc < 0 && errno != EINTR)
            return kvr_fail(KVR_EIO, "cannot wait for the Python process: %s", strerror(errno));
    }
    return rc > 0 ? KVR_OK
                  : kvr_fail(KVR_EFORMAT, "the Python file was not loaded within the limit of %d s",
                             START_MS / 1000);
}

static enum kvr_status receive(struct kvr_talk *t, void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k;

        KVR_TRY(await(t));
        k = recv(t->fd, (char *)p + at, n - at, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return fail_exited(t);
        at += (size_t)k;
    }
    return KVR_OK;
}

/* Reads an answer that reports a failure, with a message of `n` bytes. Returns `wrong` if the
 * Python code raised an exception, and KVR_ENOMEM if it ran out of memory. Ends the process. */
static enum kvr_status receive_failure(struct kvr_talk *t, int64_t status, int64_t n,
                                       enum kvr_status wrong)
{
    char text[KVR_OPT_STRING_MAX * 2];
    const size_t length = (size_t)n < sizeof text - 1 ? (size_t)n : sizeof text - 1;

    if (n < 0 || n > LONGEST) {
        kvr_talk_end(t);
        return kvr_fail(KVR_EFORMAT,
                        "the Python process sent a malformed answer: its text has %lld bytes, but "
                        "0..%d bytes are allowed",
                        (long long)n, LONGEST);
    }
    KVR_TRY(receive(t, text, length));
    text[length] = 0;
    for (char *c = text; *c; c++) /* joined to one line */
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    kvr_talk_end(t); /* the rest of the answer is not read */
    return kvr_fail(status == REPLY_NOMEM ? KVR_ENOMEM : wrong, "%s", text);
}

/* Reads and discards an answer for which no memory could be allocated, so that the next request
 * receives its own answer. */
static enum kvr_status drain_reply(struct kvr_talk *t, const struct kvr_reply *reply)
{
    char piece[4096];

    for (int i = 0; i < KVR_TALK_PARTS; i++)
        for (size_t at = 0; at < reply->n[i]; at += sizeof piece) {
            const size_t left = reply->n[i] - at;

            KVR_TRY(receive(t, piece, left < sizeof piece ? left : sizeof piece));
        }
    return KVR_OK;
}

static enum kvr_status receive_parts(struct kvr_talk *t, struct kvr_dev *dev, const int64_t *n,
                                     struct kvr_reply *reply)
{
    size_t all = 0;

    for (int i = 0; i < KVR_TALK_PARTS; i++) {
        const bool fits = reply->exactly[i] ? n[i] == (int64_t)reply->n_exactly[i]
                                            : n[i] >= 0 && (size_t)n[i] <= reply->most - all;

        if (!fits && reply->exactly[i])
            return kvr_fail(KVR_EFORMAT,
                            "the Python method returned %lld bytes of %s, need exactly %zu bytes",
                            (long long)n[i],
                            i == 0   ? "keys"
                            : i == 1 ? "values"
                                     : "state",
                            reply->n_exactly[i]);
        if (!fits)
            return kvr_fail(
                KVR_EFORMAT,
                "the Python method returned %lld bytes of data and %lld bytes of state; together "
                "at most %zu bytes are allowed (the size of keys and values in F32, plus 1 KiB)",
                (long long)n[0], (long long)n[1], reply->most);
        reply->n[i] = (size_t)n[i];
        all += reply->exactly[i] ? 0 : reply->n[i];
    }
    if (all) {
        const enum kvr_status st = kvr_buf_alloc_raw(&reply->own, dev, KVR_MEM_SCRATCH, all);

        if (st != KVR_OK) {
            char why[256];

            snprintf(why, sizeof why, "%s", kvr_error());
            KVR_TRY(drain_reply(t, reply));
            return kvr_fail(st, "%s", why);
        }
    }
    for (size_t i = 0, at = 0; i < KVR_TALK_PARTS; i++) {
        void *to = reply->exactly[i] ? reply->exactly[i] : (char *)reply->own.p + at;

        KVR_TRY(receive(t, to, reply->n[i]));
        at += reply->exactly[i] ? 0 : reply->n[i];
    }
    return KVR_OK;
}

enum kvr_status kvr_talk_request(struct kvr_talk *t, struct kvr_dev *dev,
                                 const struct kvr_message *m, struct kvr_reply *reply)
{
    const int64_t head[WORDS] = { m->form,           m->shape.n_tok,   m->shape.n_heads,
                                  m->shape.head_dim, (int64_t)m->n[0], (int64_t)m->n[1],
                                  (int64_t)m->n[2] };
    int64_t back[WORDS];
    enum kvr_status st;

    if (!t->pid)
        return kvr_fail(KVR_EIO, "the Python process is not running, because an earlier call to it "
                                 "failed; see the message of that call");
    KVR_TRY(send_all(t, head, sizeof head));
    for (int i = 0; i < KVR_TALK_PARTS; i++)
        KVR_TRY(send_all(t, m->part[i], m->n[i]));
    KVR_TRY(receive(t, back, sizeof back));
    if (back[0] != REPLY_OK)
        return receive_failure(t, back[0], back[4], KVR_EIO);
    reply->form = back[1];
    st = receive_parts(t, dev, back + 4, reply);
    if (st != KVR_OK)
        kvr_buf_free(&reply->own);
    if (st != KVR_OK && st != KVR_ENOMEM) /* after KVR_ENOMEM the answer was read completely */
        kvr_talk_end(t);
    return st;
}

/* Reads the first message of the process: the description of the Python file, or the reason why the
 * file cannot be used. */
static enum kvr_status hear_description(struct kvr_talk *t, char **described)
{
    int64_t head[WORDS];
    char *text;
    enum kvr_status st;

    t->until_ns = kvr_now_ns() + (int64_t)START_MS * NS_PER_MS;
    KVR_TRY(receive(t, head, sizeof head));
    if (head[0] != REPLY_OK)
        return receive_failure(t, head[0], head[4], KVR_EFORMAT);
    if (head[4] < 0 || head[4] > LONGEST)
        return kvr_fail(KVR_EFORMAT,
                        "the Python process sent a malformed answer: its text has %lld bytes, but "
                        "0..%d bytes are allowed",
                        (long long)head[4], LONGEST);
    text = calloc(1, (size_t)head[4] + 1);
    if (!text)
        return kvr_fail(KVR_ENOMEM, "out of memory while allocating the Python process's answer");
    st = receive(t, text, (size_t)head[4]);
    t->until_ns = 0;
    if (st == KVR_OK && described)
        *described = text;
    else
        free(text);
    return st;
}

enum kvr_status kvr_talk_start(struct kvr_talk *t, const char *path, const char *role,
                               char **described)
{
    enum kvr_status st;
    int pair[2];

    *t = (struct kvr_talk){ 0 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return kvr_fail(KVR_EIO, "cannot create a socket pair: %s", strerror(errno));
    st = spawn(t, path, role, pair[1]);
    close(pair[1]);
    t->fd = pair[0];
    if (st != KVR_OK) {
        close(pair[0]);
        return st;
    }
    st = hear_description(t, described);
    if (st != KVR_OK)
        kvr_talk_end(t);
    return st;
}
