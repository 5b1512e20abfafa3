/* gpus.c - see gpus.h. */
#include "harness/run/gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void kvr_gpus_open(struct kvr_gpus *g, const char uuid[][KVR_UUID_LEN], int n)
{
    memset(g, 0, sizeof *g);
    for (g->n = 0; g->n < n && g->n < KVR_MAX_DEVICES; g->n++) {
        snprintf(g->gpu[g->n].uuid, KVR_UUID_LEN, "%s", uuid[g->n]);
        g->gpu[g->n].fd = -1;
    }
}

void kvr_gpus_close(struct kvr_gpus *g)
{
    for (int i = 0; i < g->n; i++)
        kvr_gpu_release(g, i);
    g->n = 0;
}

static const char *folder(void)
{
    const char *env = getenv("KVREEL_LOCKS");

    if (env && env[0])
        return env;
    return access("/run/lock", W_OK | X_OK) == 0 ? "/run/lock" : "/tmp";
}

/* Opens a GPU's lock file, which every user may read and write. It first tries without O_CREAT,
 * because Linux may refuse O_CREAT for another user's file in a sticky folder such as /tmp. */
static int open_lock(const char *path)
{
    enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int fd = open(path, O_RDONLY | FLAGS);

    if (fd < 0 && errno == ENOENT) {
        fd = open(path, O_RDONLY | O_CREAT | O_EXCL | FLAGS, 0644);
        if (fd < 0 && errno == EEXIST) /* created concurrently by another process */
            fd = open(path, O_RDONLY | FLAGS);
    }
    return fd;
}

static enum kvr_status try_one(struct kvr_gpus *g, int at, bool *taken)
{
    char path[4096];
    int fd, rc, err;

    snprintf(path, sizeof path, "%s/kvreel-%s.lock", folder(), g->gpu[at].uuid);
    fd = open_lock(path);
    if (fd < 0)
        return kvr_fail(
            KVR_EIO,
            "run: cannot open %s, the lock file of a GPU: %s; KVREEL_LOCKS sets another folder",
            path, strerror(errno));
    do
        rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    err = errno;
    *taken = rc == 0;
    if (*taken) {
        g->gpu[at].fd = fd;
        return KVR_OK;
    }
    close(fd);
    return err == EWOULDBLOCK
               ? KVR_OK
               : kvr_fail(KVR_EIO,
                          "run: cannot lock %s, the lock file of a GPU: flock: %s; KVREEL_LOCKS "
                          "sets another folder",
                          path, strerror(err));
}

enum kvr_status kvr_gpu_acquire(struct kvr_gpus *g, int *at, bool *taken)
{
    *at = -1;
    *taken = g->n == 0;
    for (int i = 0; i < g->n && !*taken; i++) {
        if (g->gpu[i].fd >= 0)
            continue;
        KVR_TRY(try_one(g, i, taken));
        if (*taken)
            *at = i;
    }
    return KVR_OK;
}

void kvr_gpu_release(struct kvr_gpus *g, int at)
{
    if (at < 0 || g->gpu[at].fd < 0)
        return;
    close(g->gpu[at].fd);
    g->gpu[at].fd = -1;
}

const char *kvr_gpus_uuid(const struct kvr_gpus *g, int at)
{
    return at < 0 ? "" : g->gpu[at].uuid;
}
