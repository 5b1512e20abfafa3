/* infile.c - looked at before it is read. */
#include "harness/core/infile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kvr_status fail(const char *path, int e)
{
    return kvr_fail(e == ENOENT || e == ENOTDIR ? KVR_ENOTFOUND
                    : e == ENOMEM               ? KVR_ENOMEM
                                                : KVR_EIO,
                    "%s: %s", path, strerror(e));
}

static enum kvr_status check(const char *path, const struct stat *sb, bool pipes)
{
    const mode_t m = sb->st_mode;

    if (S_ISREG(m) || (pipes && S_ISFIFO(m)))
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT, "%s: %s, not a regular file", path,
                    S_ISDIR(m)    ? "a directory"
                    : S_ISFIFO(m) ? "a pipe"
                    : S_ISSOCK(m) ? "a socket"
                                  : "a device");
}

enum kvr_status kvr_infile_check(const char *path)
{
    struct stat sb;

    return stat(path, &sb) == 0 ? check(path, &sb, false) : fail(path, errno);
}

enum kvr_status kvr_infile_open(FILE **out, const char *path)
{
    struct stat sb;
    enum kvr_status st;
    int fd;

    *out = NULL;
    if (stat(path, &sb) != 0)
        return fail(path, errno);
    KVR_TRY(check(path, &sb, true)); /* some devices do something when they are opened */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail(path, errno);
    st = fstat(fd, &sb) == 0 ? check(path, &sb, true) : fail(path, errno);
    if (st == KVR_OK && fcntl(fd, F_SETFL, 0) == 0)
        *out = fdopen(fd, "rb");
    if (st == KVR_OK && !*out)
        st = fail(path, errno);
    if (st != KVR_OK)
        close(fd);
    return st;
}
