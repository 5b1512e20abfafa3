/* lock.c - flock on DATABASE.lock, with the holder's name in it. */
#include "harness/store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static enum kvr_status busy(int fd, const char *db_path)
{
    char who[256] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);

    who[n > 0 ? n : 0] = 0;
    close(fd);
    return kvr_fail(KVR_EBUSY,
                    "run: %s: another run is writing to it%s%s; wait for it, or use another --db",
                    db_path, who[0] ? ", " : "", who);
}

enum kvr_status kvr_store_lock(int *fd, const char *db_path)
{
    char *path, host[128] = "?", who[256];
    int n;

    *fd = -1;
    if (asprintf(&path, "%s.lock", db_path) < 0)
        return kvr_fail(KVR_ENOMEM, "run: no memory");
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0) {
        enum kvr_status st = kvr_fail(KVR_EIO, "run: %s: %s", path, strerror(errno));

        free(path);
        return st;
    }
    free(path);
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        int held = *fd;

        *fd = -1;
        return busy(held, db_path);
    }
    gethostname(host, sizeof host - 1);
    n = snprintf(who, sizeof who, "process %ld on %s", (long)getpid(), host);
    /* Only a name for messages: a disk that is full must not keep a run from starting. */
    if (ftruncate(*fd, 0) != 0 || pwrite(*fd, who, (size_t)n, 0) != n)
        errno = 0;
    return KVR_OK;
}

void kvr_store_unlock(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
