/* path.c - joins, splits, queries and creates paths. */
#include "harness/core/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *kvr_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    char *out;

    if (n == 0 || name[0] == '/')
        return strdup(name);
    if (asprintf(&out, "%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name) < 0)
        return NULL;
    return out;
}

char *kvr_path_dir(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') /* trailing slashes */
        n--;
    while (n > 0 && path[n - 1] != '/') /* the last component */
        n--;
    if (n == 0)
        return strdup(".");
    while (n > 1 && path[n - 1] == '/') /* the slashes before the last component */
        n--;
    return strndup(path, n);
}

bool kvr_path_has_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);

    return m > 0 && n > m && strcmp(path + n - m, suffix) == 0;
}

const char *kvr_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool kvr_path_exists(const char *path)
{
    struct stat sb;

    return stat(path, &sb) == 0;
}

bool kvr_path_is_below(const char *dir, const char *path)
{
    /* The buffers are not on the heap. Otherwise a failed allocation would look like a missing
     * file. */
    char real_dir[PATH_MAX], real[PATH_MAX];
    const char *top = realpath(dir, real_dir), *at = realpath(path, real);
    const size_t n = top ? strlen(top) : 0;
    struct stat sb;

    return n > 0 && at && strncmp(at, top, n) == 0 && (at[n] == '/' || n == 1) &&
           lstat(at, &sb) == 0 && S_ISREG(sb.st_mode);
}

bool kvr_path_is_dir(const char *path)
{
    struct stat sb;

    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

static enum kvr_status make_one(const char *path)
{
    int e;

    if (mkdir(path, 0777) == 0)
        return KVR_OK;
    e = errno;
    if (kvr_path_is_dir(path)) /* tested after mkdir(), so that concurrent calls all succeed */
        return KVR_OK;
    return kvr_fail(e == ENOSPC || e == EDQUOT || e == EFBIG ? KVR_EFULL : KVR_EIO,
                    "%s: cannot create the directory: %s", path, strerror(e));
}

enum kvr_status kvr_mkdirs(const char *path)
{
    char *copy = strdup(path);
    enum kvr_status st = KVR_OK;

    if (!copy)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    if (!*copy)
        st = kvr_fail(KVR_EINVAL, "cannot create a directory: the given path is empty; use '.' for "
                                  "the current directory");
    for (char *p = copy + 1; st == KVR_OK && *copy && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        st = make_one(copy);
        *p = '/';
    }
    if (st == KVR_OK)
        st = make_one(copy);
    free(copy);
    return st;
}

enum kvr_status kvr_mkdirs_above(const char *path)
{
    char *dir = kvr_path_dir(path);
    enum kvr_status st = dir ? kvr_mkdirs(dir) : kvr_fail(KVR_ENOMEM, "%s: out of memory", path);

    free(dir);
    return st;
}

char *kvr_path_relative(const char *from, const char *to)
{
    size_t same = 0, n = 0; /* same: length of the common leading directories, without the last
                             * '/' */
    char *out, *at;

    for (size_t i = 0;; i++) {
        const bool end = (!from[i] || from[i] == '/') && (!to[i] || to[i] == '/');

        if (end)
            same = i;
        if (from[i] != to[i] || !from[i])
            break;
    }
    for (const char *p = from + same; *p; p++)
        n += *p == '/' && p[1];
    out = malloc(3 * n + strlen(to + same) + 3);
    if (!out)
        return NULL;
    at = out;
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, i ? "/.." : "..");
    to += same + (to[same] == '/');
    if (*to)
        sprintf(at, "%s%s", n ? "/" : "", to);
    else if (n == 0)
        strcpy(out, ".");
    return out;
}
