/* gnuplot.c - runs gnuplot as a child process and captures its messages. */
#include "harness/report/plot/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int start(const char *dir, const char *script, int out_fd, pid_t *pid)
{
    char *const argv[] = { (char[]){ "gnuplot" }, (char[]){ "-d" }, (char *)(uintptr_t)script,
                           NULL };
    posix_spawn_file_actions_t actions;
    int err = posix_spawn_file_actions_init(&actions);

    if (err)
        return err;
    err = posix_spawn_file_actions_addchdir_np(&actions, dir);
    if (!err)
        err = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, out_fd, 2);
    if (!err)
        err = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

/* Reads the child's whole output, so that the child never blocks, and copies the end of the output
 * to `tail` as one line. */
static void read_tail(int fd, char *tail, size_t n)
{
    char buf[512];
    size_t have = 0;
    ssize_t got;

    while ((got = read(fd, buf, sizeof buf)) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got; i++) {
            if (have == n - 1) {
                memmove(tail, tail + n / 2, have - n / 2);
                have -= n / 2;
            }
            tail[have++] = buf[i] == '\n' ? ' ' : buf[i];
        }
    }
    while (have > 0 && tail[have - 1] == ' ')
        have--;
    tail[have] = '\0';
}

/* Handles the failure to start gnuplot. If gnuplot is missing, it writes a warning; if memory is
 * exhausted, it returns an error. */
static enum kvr_status cannot_start(int err, const char *dir, const char *script, char *warning,
                                    size_t n)
{
    snprintf(warning, n,
             "gnuplot cannot be run (%s), so the figure was not drawn; its script %s/%s and its "
             "data were written",
             strerror(err), dir, script);
    if (err == ENOENT || err == EACCES || err == ENOTDIR)
        return KVR_OK;
    return kvr_fail(err == ENOMEM ? KVR_ENOMEM : KVR_EIO, "%s", warning);
}

enum kvr_status kvr_gnuplot_run(const char *dir, const char *script, bool *drawn, char *warning,
                                size_t n)
{
    char tail[256] = "";
    int fd[2], status = 0, err;
    pid_t pid;

    *drawn = false;
    if (pipe2(fd, O_CLOEXEC) != 0)
        return kvr_fail(KVR_EIO, "gnuplot: cannot create a pipe for the output of %s/%s: %s", dir,
                        script, strerror(errno));
    err = start(dir, script, fd[1], &pid);
    close(fd[1]);
    if (err) {
        close(fd[0]);
        return cannot_start(err, dir, script, warning, n);
    }
    read_tail(fd[0], tail, sizeof tail);
    close(fd[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *drawn = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (*drawn)
        return KVR_OK;
    if (WIFSIGNALED(status))
        return kvr_fail(KVR_EIO, "gnuplot was killed by signal %d while it ran %s/%s: %s",
                        WTERMSIG(status), dir, script, tail);
    return kvr_fail(KVR_EIO, "gnuplot failed to run %s/%s: %s", dir, script, tail);
}
