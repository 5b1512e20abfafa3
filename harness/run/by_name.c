/* by_name.c - see by_name.h. */
#include "harness/run/by_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/path.h"

enum { ROOM = 1024 };

/* Copies a name for use as a file name. Every character but letters, digits and _.+=@- becomes '_',
 * and so does a leading dot. */
static void plain(const char *text, char *out, size_t n)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+=@-";

    snprintf(out, n, "%s", text);
    for (char *p = out; *p; p++)
        if (!strchr(allowed, *p) || (p == out && *p == '.'))
            *p = '_';
}

/* Whether two link targets differ at most in the build identifier after the last '-'. */
static bool same_result(const char *a, const char *b)
{
    const char *end = strrchr(a, '-');
    const size_t n = end ? (size_t)(end - a) : strlen(a);

    return strncmp(a, b, n) == 0 && strrchr(b, '-') == b + n;
}

/* Whether the link may be written: it does not exist, or it points to the same result, possibly of
 * another build. */
static bool is_ours(const char *link, const char *target)
{
    char there[ROOM];
    const ssize_t n = readlink(link, there, sizeof there - 1);

    if (n < 0)
        return errno == ENOENT;
    there[n] = 0;
    return same_result(target, there);
}

/* Creates the link under a temporary name and renames it, so that readers see either the old link
 * or the new one. */
static enum kvr_status put_link(const char *link, const char *target)
{
    char temporary[ROOM + 32];
    int err;

    snprintf(temporary, sizeof temporary, "%s.%ld", link, (long)getpid());
    unlink(temporary);
    if (symlink(target, temporary) != 0)
        return kvr_fail(KVR_EIO, "run: cannot create the symbolic link %s: %s", link,
                        strerror(errno));
    if (rename(temporary, link) == 0)
        return KVR_OK;
    err = errno;
    unlink(temporary);
    return kvr_fail(KVR_EIO, "run: cannot create the symbolic link %s: %s", link, strerror(err));
}

enum kvr_status kvr_link_by_name(const char *out_dir, const char *prompt, const char *method,
                                 const char *key, const char *file)
{
    char folder[ROOM / 4], name[ROOM / 4], dir[ROOM / 2 + 300], link[ROOM], target[ROOM];
    const char *suffix = strrchr(file, '.');
    char *path = kvr_path_join(out_dir, file);
    const bool there = path && kvr_path_exists(path);

    free(path);
    if (!there || !suffix)
        return KVR_OK;
    plain(prompt, folder, sizeof folder);
    plain(method, name, sizeof name);
    if (snprintf(dir, sizeof dir, "%s/by-name/%s", out_dir, folder) >= (int)sizeof dir ||
        snprintf(link, sizeof link, "%s/%s%s", dir, name, suffix) >= (int)sizeof link ||
        snprintf(target, sizeof target, "../../%s", file) >= (int)sizeof target)
        return kvr_fail(
            KVR_EIO,
            "run: %s: the path of a symbolic link to this file has more than %d bytes, the limit",
            file, ROOM - 1);
    KVR_TRY(kvr_mkdirs(dir));
    if (!is_ours(link, target) &&
        snprintf(link, sizeof link, "%s/%s-%.8s%s", dir, name, key, suffix) >= (int)sizeof link)
        return kvr_fail(
            KVR_EIO,
            "run: %s: the path of a symbolic link to this file has more than %d bytes, the limit",
            file, ROOM - 1);
    return put_link(link, target);
}
