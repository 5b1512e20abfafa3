/* outfile.c - writes a file by a temporary file, fsync() and rename(). Devices and FIFOs are
 * written in place. */
#include "harness/core/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/path.h"

enum { NAME_TRIES = 1000 };

struct kvr_out {
    char *path;
    char *temporary; /* name of the temporary file, or NULL if the file is written in place */
    int fd;
    bool replaces; /* a file exists at `path`; its mode and owner (`old`) are kept */
    struct stat old;
};

static enum kvr_status fail_errno(const char *path, const char *doing, int e)
{
    return kvr_fail(e == ENOSPC || e == EDQUOT || e == EFBIG ? KVR_EFULL : KVR_EIO, "%s: %s: %s",
                    path, doing, strerror(e));
}

/* Creates a temporary file in the target's directory, so that rename() stays within one file
 * system. mkstemp() is not used, because it creates files with mode 0600. */
static enum kvr_status open_temporary(struct kvr_out *o)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        if (asprintf(&o->temporary, "%s.tmp-%ld-%d", o->path, (long)getpid(), i) < 0) {
            o->temporary = NULL;
            return kvr_fail(KVR_ENOMEM, "%s: out of memory", o->path);
        }
        o->fd = open(o->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                     o->replaces ? o->old.st_mode & 0777 : 0666);
        if (o->fd >= 0)
            return KVR_OK;
        free(o->temporary);
        o->temporary = NULL;
        if (errno != EEXIST)
            break;
    }
    return fail_errno(o->path, "cannot create a temporary file in the same folder", errno);
}

/* Sets *there to whether `path` exists, and *s to its status. Symbolic links are refused: following
 * a link could redirect the write, and rename() would replace the link. */
static enum kvr_status stat_path(const char *path, struct stat *s, bool *there)
{
    *there = lstat(path, s) == 0;
    if (*there && S_ISLNK(s->st_mode))
        return kvr_fail(
            KVR_EIO, "%s: cannot write to a symbolic link; give the path that it points to", path);
    if (*there && S_ISDIR(s->st_mode)) /* rename() would fail only after writing */
        return fail_errno(path, "cannot write", EISDIR);
    return KVR_OK;
}

/* Opens a device or a FIFO, which receives the bytes immediately. */
static enum kvr_status open_in_place(struct kvr_out *o)
{
    struct stat now;

    o->fd = open(o->path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (o->fd < 0)
        return fail_errno(o->path, "cannot open for writing", errno);
    if (fstat(o->fd, &now) != 0 || now.st_ino != o->old.st_ino || now.st_dev != o->old.st_dev)
        return kvr_fail(KVR_EIO,
                        "%s: cannot write: another process replaced the file while it was opened",
                        o->path);
    return KVR_OK;
}

static enum kvr_status open_target(struct kvr_out *o)
{
    KVR_TRY(stat_path(o->path, &o->old, &o->replaces));
    return o->replaces && !S_ISREG(o->old.st_mode) ? open_in_place(o) : open_temporary(o);
}

enum kvr_status kvr_out_open(struct kvr_out **out, const char *path)
{
    struct kvr_out *o = calloc(1, sizeof *o);
    enum kvr_status st;

    *out = NULL;
    if (!o)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    o->fd = -1;
    o->path = strdup(path);
    st = o->path ? open_target(o) : kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    if (st != KVR_OK)
        kvr_out_drop(&o);
    *out = o;
    return st;
}

enum kvr_status kvr_out_write(struct kvr_out *o, const void *p, size_t n)
{
    const char *bytes = p;

    while (n > 0) {
        ssize_t done = write(o->fd, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail_errno(o->path, "cannot write", errno);
        bytes += done;
        n -= (size_t)done;
    }
    return KVR_OK;
}

int kvr_out_fd(const struct kvr_out *o)
{
    return o->fd;
}

/* Makes the rename durable by fsync() of the directory. Failures are ignored: some file systems
 * cannot sync a directory, and the file is complete in any case. */
static void sync_directory(const char *path)
{
    char *dir = kvr_path_dir(path);
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

/* Sets the owner and the mode of the new file to those of the replaced file. The owner is set
 * first, because fchown() may clear mode bits. Only root can change the owner, so failures of
 * fchown() are ignored. */
static enum kvr_status keep_mode(const struct kvr_out *o)
{
    if (!o->replaces || !o->temporary)
        return KVR_OK;
    if (fchown(o->fd, o->old.st_uid, o->old.st_gid) != 0)
        errno = 0;
    if (fchmod(o->fd, o->old.st_mode & 0777) != 0)
        return fail_errno(o->path, "cannot give the new file the permissions of the replaced file",
                          errno);
    return KVR_OK;
}

static enum kvr_status commit(struct kvr_out *o)
{
    int fd = o->fd;
    struct stat now;
    bool there;

    KVR_TRY(keep_mode(o));
    if (fsync(fd) != 0 && (o->temporary || (errno != EINVAL && errno != EROFS)))
        return fail_errno(o->path, "cannot flush the file to the disk (fsync)", errno);
    o->fd = -1;
    if (close(fd) != 0)
        return fail_errno(o->path, "cannot close the file after writing", errno);
    if (!o->temporary)
        return KVR_OK;
    KVR_TRY(stat_path(o->path, &now, &there));
    if (there && !S_ISREG(now.st_mode))
        return kvr_fail(KVR_EIO,
                        "%s: cannot write: another process replaced the file while it was opened",
                        o->path);
    if (rename(o->temporary, o->path) != 0)
        return fail_errno(o->path, "cannot rename the finished temporary file to this path", errno);
    free(o->temporary);
    o->temporary = NULL;
    sync_directory(o->path);
    return KVR_OK;
}

enum kvr_status kvr_out_commit(struct kvr_out **o)
{
    enum kvr_status st = commit(*o);

    kvr_out_drop(o);
    return st;
}

void kvr_out_drop(struct kvr_out **o)
{
    struct kvr_out *x = *o;

    if (!x)
        return;
    if (x->fd >= 0)
        close(x->fd);
    if (x->temporary) {
        unlink(x->temporary);
        free(x->temporary);
    }
    free(x->path);
    free(x);
    *o = NULL;
}

enum kvr_status kvr_out_save(const char *path, const void *p, size_t n)
{
    struct kvr_out *o;
    enum kvr_status st;

    KVR_TRY(kvr_out_open(&o, path));
    st = kvr_out_write(o, p, n);
    if (st == KVR_OK)
        st = kvr_out_commit(&o);
    kvr_out_drop(&o);
    return st;
}
