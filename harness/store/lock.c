/* lock.c - flock on DATABASE.lock, which contains the holder's name. */
#include "harness/store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/path.h"

static const char mark[] = "process ";

static enum kvr_status fail_locked(int fd, const char *db_path)
{
    char who[256] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);

    who[n > 0 ? n : 0] = 0;
    close(fd);
    return kvr_fail(KVR_EBUSY,
                    "run: %s: another run is writing to this database%s%s; wait for that run, or "
                    "use another --db",
                    db_path, who[0] ? ", " : "", who);
}

/* The database's real name, with symbolic links resolved, plus ".lock"; the caller frees it. A file
 * with several hard links is refused: SQLite names its journal after the database file, so each
 * name would have another journal. */
static enum kvr_status name_lock(const char *db_path, char **out)
{
    /* realpath() gets a buffer: if it failed to allocate one, the database would seem to be
     * missing. */
    char name[PATH_MAX], *dir = NULL;
    const char *real = realpath(db_path, name);
    struct stat sb;
    int n = -1;

    *out = NULL;
    if (!real && lstat(db_path, &sb) == 0)
        return kvr_fail(KVR_EIO,
                        "run: %s: the database is a symbolic link to a file that does not exist",
                        db_path);
    if (real && stat(real, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_nlink > 1)
        return kvr_fail(KVR_EIO,
                        "run: %s: the database has %ld hard links; use a file with one link, since "
                        "SQLite finds a database's journal by the name of the database",
                        db_path, (long)sb.st_nlink);
    if (real) {
        n = asprintf(out, "%s.lock", real);
    } else if ((dir = kvr_path_dir(db_path)) != NULL) { /* the database does not exist yet */
        real = realpath(dir, name);
        n = asprintf(out, "%s/%s.lock", real ? real : dir, kvr_path_base(db_path));
    }
    free(dir);
    return n >= 0 ? KVR_OK : kvr_fail(KVR_ENOMEM, "run: out of memory");
}

/* Whether the open file is empty or a lock file of kvreel; any other file is not overwritten. */
static bool is_lock(int fd)
{
    char start[sizeof mark - 1];
    struct stat sb;

    return fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_nlink <= 1 &&
           (sb.st_size == 0 || (pread(fd, start, sizeof start, 0) == sizeof start &&
                                memcmp(start, mark, sizeof start) == 0));
}

static enum kvr_status open_lock(int *fd, const char *path)
{
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    if (*fd < 0 && errno == ELOOP)
        return kvr_fail(KVR_EIO, "run: %s: the lock file is a symbolic link, need a regular file",
                        path);
    if (*fd < 0)
        return kvr_fail(KVR_EIO, "run: cannot open the lock file %s: %s", path, strerror(errno));
    if (is_lock(*fd))
        return KVR_OK;
    close(*fd);
    *fd = -1;
    return kvr_fail(
        KVR_EIO,
        "run: %s: this file is not a lock file of kvreel; move the file, or use another --db",
        path);
}

/* Tries to lock the open file. Takes `fd` on failure. */
static enum kvr_status acquire(int fd, const char *path, const char *db_path)
{
    int rc, err;

    do
        rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    err = errno;
    if (rc == 0)
        return KVR_OK;
    if (err == EWOULDBLOCK)
        return fail_locked(fd, db_path);
    close(fd);
    return kvr_fail(KVR_EIO,
                    "run: cannot lock the file %s: flock: %s; use a --db in a file system with "
                    "file locks",
                    path, strerror(err));
}

enum kvr_status kvr_store_lock(int *fd, const char *db_path)
{
    char *path, host[128] = "?", who[256];
    enum kvr_status st;
    int n;

    *fd = -1;
    KVR_TRY(name_lock(db_path, &path));
    st = open_lock(fd, path);
    if (st == KVR_OK)
        st = acquire(*fd, path, db_path);
    free(path);
    if (st != KVR_OK) {
        *fd = -1;
        return st;
    }
    gethostname(host, sizeof host - 1);
    n = snprintf(who, sizeof who, "%s%ld on %s", mark, (long)getpid(), host);
    /* Errors are ignored: the name is used only in messages, and a full disk must not prevent a
     * run. */
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

enum kvr_status kvr_store_locked(const char *db_path, bool *held, char who[256])
{
    char *path = NULL;
    enum kvr_status st;
    ssize_t n;
    int fd, rc = 0;

    who[0] = 0;
    *held = false;
    st = name_lock(db_path, &path);
    if (st != KVR_OK)
        return st == KVR_ENOMEM ? st : KVR_OK;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    free(path);
    if (fd >= 0 && is_lock(fd))
        do
            rc = flock(fd, LOCK_SH | LOCK_NB);
        while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EWOULDBLOCK) {
        n = pread(fd, who, 255, 0);
        who[n > 0 ? n : 0] = 0;
        *held = true;
    }
    if (fd >= 0)
        close(fd);
    return KVR_OK;
}
