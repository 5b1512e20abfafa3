/* spawn.c - starts workers and opens their pipes. */
#include "harness/run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { N_PIPES = 4 }; /* in, out, err, life */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The environment with OMP_NUM_THREADS, KVREEL_LIFE and (if gpu is not "") CUDA_VISIBLE_DEVICES
 * replaced. All strings are in one allocation. */
static char **environment(int threads, const char *gpu)
{
    enum { OWN = 128, N_OWN = 3 };
    static const char *const names[N_OWN] = { "OMP_NUM_THREADS=", "KVREEL_LIFE=",
                                              "CUDA_VISIBLE_DEVICES=" };
    const int n_own = gpu[0] ? N_OWN : N_OWN - 1;
    size_t n = 0, k = 0;
    char **env, *own;

    while (environ[n])
        n++;
    env = malloc((n + N_OWN + 1) * sizeof *env + N_OWN * OWN);
    if (!env)
        return NULL;
    own = (char *)(env + n + N_OWN + 1);
    snprintf(own, OWN, "%s%d", names[0], threads);
    snprintf(own + OWN, OWN, "%s%d", names[1], KVR_LIFE_FD);
    snprintf(own + 2 * OWN, OWN, "%s%s", names[2], gpu);
    for (size_t i = 0; i < n; i++) {
        bool ours = false;

        for (int o = 0; o < n_own; o++)
            ours = ours || strncmp(environ[i], names[o], strlen(names[o])) == 0;
        if (!ours)
            env[k++] = environ[i];
    }
    for (int o = 0; o < n_own; o++)
        env[k++] = own + o * OWN;
    env[k] = NULL;
    return env;
}

/* Makes fd[i] descriptor i of the worker. */
static int pass_fds(posix_spawn_file_actions_t *files, const int fd[KVR_LIFE_FD + 1])
{
    int rc = 0;

    for (int i = 0; rc == 0 && i <= KVR_LIFE_FD; i++)
        rc = posix_spawn_file_actions_adddup2(files, fd[i], i);
    return rc;
}

static int spawn(pid_t *pid, const int fd[KVR_LIFE_FD + 1], char **env)
{
    static char name[] = "kvreel", command[] = "worker";
    char *argv[] = { name, command, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    /* Path of the executable to start. Under valgrind, /proc/self/exe is valgrind, so
     * tools/test/tiny-sweep.sh sets KVREEL_SELF. */
    const char *self = getenv("KVREEL_SELF");
    sigset_t none, defaults;
    int rc;

    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    sigaddset(&defaults, SIGUSR1);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    rc = pass_fds(&files, fd);
    if (rc == 0)
        rc = posix_spawn(pid, self ? self : "/proc/self/exe", &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* Opens the pipes on descriptors above KVR_LIFE_FD, so that dup2() in the child does not overwrite
 * them. */
static enum kvr_status open_pipes(int p[N_PIPES][2])
{
    for (int i = 0; i < N_PIPES; i++) {
        if (pipe2(p[i], O_CLOEXEC) != 0)
            return kvr_fail(KVR_EIO, "run: cannot create a pipe to a worker process: %s",
                            strerror(errno));
        for (int k = 0; k < 2; k++) {
            const int low = p[i][k];

            if (low > KVR_LIFE_FD)
                continue;
            p[i][k] = fcntl(low, F_DUPFD_CLOEXEC, KVR_LIFE_FD + 1);
            close(low);
            if (p[i][k] < 0)
                return kvr_fail(KVR_EIO, "run: cannot create a pipe to a worker process: %s",
                                strerror(errno));
        }
    }
    return KVR_OK;
}

/* Writes the request to the worker. If the request does not fit into the pipe's buffer, write()
 * blocks until the worker reads. There is no deadlock, because a worker reads the whole request
 * before it writes. */
static enum kvr_status write_request(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return errno == EPIPE
                       ? KVR_OK /* the worker has ended; its wait status says why */
                       : kvr_fail(KVR_EIO, "run: cannot send a cell to a worker process: %s",
                                  strerror(errno));
        p += k;
        n -= (size_t)k;
    }
    return KVR_OK;
}

enum kvr_status kvr_child_start(struct kvr_child *c, const char *request, size_t n, int threads,
                                const char *gpu)
{
    int p[N_PIPES][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    char **env = environment(threads, gpu);
    enum kvr_status st;
    int rc;

    memset(c, 0, sizeof *c);
    c->out = c->err = c->life = -1;
    st = env ? open_pipes(p) : kvr_fail(KVR_ENOMEM, "run: out of memory");
    if (st == KVR_OK) {
        rc = spawn(&c->pid, (const int[]){ p[0][0], p[1][1], p[2][1], p[3][0] }, env);
        if (rc != 0) {
            c->pid = 0;
            st = kvr_fail(rc == ENOMEM ? KVR_ENOMEM : KVR_EIO,
                          "run: cannot start a worker process: %s", strerror(rc));
        }
    }
    if (st == KVR_OK) {
        fcntl(p[1][0], F_SETFL, O_NONBLOCK);
        fcntl(p[2][0], F_SETFL, O_NONBLOCK);
        c->out = p[1][0];
        c->err = p[2][0];
        c->life = p[3][1];
        p[1][0] = p[2][0] = p[3][1] = -1;
        st = write_request(p[0][1], request, n);
    }
    for (int i = 0; i < N_PIPES; i++) {
        close_fd(&p[i][0]);
        close_fd(&p[i][1]);
    }
    free(env);
    if (st != KVR_OK)
        kvr_child_free(c);
    return st;
}

static bool keep_answer(struct kvr_child *c, const char *p, size_t n)
{
    if (c->n_answer + n + 1 > KVR_ANSWER_MAX) {
        c->too_long = true;
        return false;
    }
    if (c->n_answer + n + 1 > c->capacity) {
        size_t capacity = 2 * (c->n_answer + n + 1);
        char *bigger = realloc(c->answer, capacity);

        if (!bigger) {
            c->no_room = true;
            return false;
        }
        c->answer = bigger;
        c->capacity = capacity;
    }
    memcpy(c->answer + c->n_answer, p, n);
    c->n_answer += n;
    c->answer[c->n_answer] = 0;
    return true;
}

static void keep_tail(struct kvr_child *c, const char *p, size_t n)
{
    const size_t max = KVR_TAIL_MAX - 1;
    size_t drop;

    if (n > max) {
        p += n - max;
        n = max;
    }
    drop = c->n_tail + n > max ? c->n_tail + n - max : 0;
    memmove(c->tail, c->tail + drop, c->n_tail - drop);
    c->n_tail -= drop;
    memcpy(c->tail + c->n_tail, p, n);
    c->n_tail += n;
    c->tail[c->n_tail] = 0;
}

static void drain(struct kvr_child *c, int *fd)
{
    char buf[16384];
    ssize_t n;

    while (*fd >= 0) {
        n = read(*fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0)
            close_fd(fd);
        else if (fd == &c->err)
            keep_tail(c, buf, (size_t)n);
        else if (!keep_answer(c, buf, (size_t)n))
            close_fd(fd);
    }
}

void kvr_child_read(struct kvr_child *c)
{
    drain(c, &c->out);
    drain(c, &c->err);
}

static int64_t nanoseconds(struct timeval t)
{
    return ((int64_t)t.tv_sec * 1000000 + t.tv_usec) * 1000;
}

bool kvr_child_reap(struct kvr_child *c, int *status)
{
    struct rusage used;

    if (c->pid <= 0 || wait4(c->pid, status, WNOHANG, &used) != c->pid)
        return false;
    c->cpu_ns = nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime);
    kill(-c->pid, SIGKILL);
    c->pid = 0;
    kvr_child_read(c);
    return true;
}

void kvr_child_kill(struct kvr_child *c)
{
    if (c->pid > 0)
        kill(-c->pid, SIGKILL);
}

void kvr_child_free(struct kvr_child *c)
{
    int *const fd[] = { &c->out, &c->err, &c->life };

    if (c->pid > 0) {
        kill(-c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        c->pid = 0;
    }
    free(c->answer);
    for (int i = 0; i < 3; i++)
        if (*fd[i] > KVR_LIFE_FD) /* 0 in {0}, or -1: not open */
            close_fd(fd[i]);
    memset(c, 0, sizeof *c);
    c->out = c->err = c->life = -1;
}
