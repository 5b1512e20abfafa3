/* infile.c - checks a file before reading it. */
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
    KVR_TRY(check(path, &sb, true)); /* before open(), because opening a device (such as a tape) can
                                      * have side effects */
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

static enum kvr_status wrong_encoding(const char *path, const char *encoding, const char *mark)
{
    return kvr_fail(
        KVR_EFORMAT,
        "%s: the file is %s text (it begins with the byte order mark %s): save it as UTF-8", path,
        encoding, mark);
}

/* Skips a UTF-8 byte order mark at the start of the file. Fails if the file starts with a UTF-16 or
 * UTF-32 mark. Pushes all other bytes back into the stream. */
static enum kvr_status skip_mark(FILE *f, const char *path)
{
    int c[4], n = 0;

    while (n < 4 && (c[n] = getc(f)) != EOF)
        n++;
    if (n >= 4 && c[0] == 0xff && c[1] == 0xfe && c[2] == 0 && c[3] == 0)
        return wrong_encoding(path, "UTF-32", "FF FE 00 00");
    if (n >= 4 && c[0] == 0 && c[1] == 0 && c[2] == 0xfe && c[3] == 0xff)
        return wrong_encoding(path, "UTF-32", "00 00 FE FF");
    if (n >= 2 && c[0] == 0xff && c[1] == 0xfe)
        return wrong_encoding(path, "UTF-16", "FF FE");
    if (n >= 2 && c[0] == 0xfe && c[1] == 0xff)
        return wrong_encoding(path, "UTF-16", "FE FF");
    for (const int keep = n >= 3 && c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf ? 3 : 0; n > keep;)
        if (ungetc(c[--n], f) == EOF) /* glibc can put back more bytes than the one that POSIX
                                       * guarantees */
            return kvr_fail(KVR_ENOMEM,
                            "%s: out of memory while reading the first bytes of the file", path);
    return KVR_OK;
}

enum kvr_status kvr_infile_open_text(FILE **out, const char *path)
{
    enum kvr_status st;

    KVR_TRY(kvr_infile_open(out, path));
    st = skip_mark(*out, path);
    if (st != KVR_OK) {
        fclose(*out);
        *out = NULL;
    }
    return st;
}
