/* result_cache.c - stores computed values in a file of lines "WHAT KEY = VALUE". If several lines
 * have the same WHAT and KEY, the last line overrides the others. */
#include "harness/core/result_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/infile.h"
#include "harness/core/path.h"

enum { LINE = 512, VALUE = 80 };

char *kvr_cache_file(const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL, *path = NULL;

    if (cache && cache[0] == '/')
        dir = kvr_path_join(cache, "kvreel");
    else if (home && home[0] == '/')
        dir = kvr_path_join(home, ".cache/kvreel");
    if (dir)
        path = kvr_path_join(dir, name);
    free(dir);
    return path;
}

static char *cache_path(void)
{
    return kvr_cache_file("remembered");
}

static bool recall(const char *what, const char *key, char value[VALUE])
{
    char *path = cache_path(), line[LINE], head[LINE];
    const int n = snprintf(head, sizeof head, "%s %s = ", what, key);
    FILE *f = NULL;
    bool found = false;

    if (path)
        kvr_infile_open(&f, path);
    free(path);
    if (!f)
        return false;
    while (n < LINE && fgets(line, sizeof line, f))
        if (strncmp(line, head, (size_t)n) == 0 && strchr(line, '\n') && strlen(line + n) < VALUE) {
            line[strcspn(line, "\n")] = 0;
            strcpy(value, line + n);
            found = true;
        }
    fclose(f);
    return found;
}

/* Appends a line by a single write(), so that lines of concurrent programs do not mix. Failures are
 * ignored, because a missing value is computed again. */
static void remember(const char *what, const char *key, const char *value)
{
    char line[LINE], *path = cache_path(), *dir = path ? kvr_path_dir(path) : NULL;
    const int n = snprintf(line, sizeof line, "%s %s = %s\n", what, key, value);
    int fd = -1;

    if (dir && n < LINE && kvr_mkdirs(dir) == KVR_OK)
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, line, (size_t)n) != n) {
            /* recall() skips a truncated line */
        }
        close(fd);
    }
    free(dir);
    free(path);
}

bool kvr_file_stamp(const char *path, char stamp[KVR_STAMP_LEN], bool *settled)
{
    const time_t now = time(NULL);
    struct stat s;

    if (stat(path, &s) != 0)
        return false;
    /* File timestamps advance every few milliseconds. A file that changed more than a second ago
     * cannot change again without a new timestamp. */
    *settled = *settled && s.st_ctim.tv_sec + 1 < now && s.st_mtim.tv_sec + 1 < now;
    snprintf(stamp, KVR_STAMP_LEN, "%ju %ju %jd %jd.%09ld %jd.%09ld", (uintmax_t)s.st_dev,
             (uintmax_t)s.st_ino, (intmax_t)s.st_size, (intmax_t)s.st_mtim.tv_sec,
             s.st_mtim.tv_nsec, (intmax_t)s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
    return true;
}

static bool is_large(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && s.st_size >= KVR_REMEMBER_BYTES;
}

static bool recall_hash(const char *stamp, char hex[KVR_SHA256_HEX])
{
    char value[VALUE];

    if (!recall("sha256", stamp, value) || strlen(value) != KVR_SHA256_HEX - 1 ||
        strspn(value, "0123456789abcdef") != KVR_SHA256_HEX - 1)
        return false;
    memcpy(hex, value, KVR_SHA256_HEX);
    return true;
}

enum kvr_status kvr_file_sha256(const char *path, char hex[KVR_SHA256_HEX])
{
    char before[KVR_STAMP_LEN], after[KVR_STAMP_LEN];
    bool settled = true;

    if (!is_large(path) || !kvr_file_stamp(path, before, &settled))
        return kvr_sha256_file(path, hex);
    if (recall_hash(before, hex))
        return KVR_OK;
    KVR_TRY(kvr_sha256_file(path, hex));
    if (settled && kvr_file_stamp(path, after, &settled) && strcmp(before, after) == 0)
        remember("sha256", before, hex);
    return KVR_OK;
}

enum kvr_status kvr_file_sha256_known(const char *path, char hex[KVR_SHA256_HEX])
{
    char stamp[KVR_STAMP_LEN];
    bool settled = true;

    hex[0] = 0;
    if (!is_large(path))
        return kvr_sha256_file(path, hex);
    if (kvr_file_stamp(path, stamp, &settled))
        recall_hash(stamp, hex);
    return KVR_OK;
}

double kvr_max_remembered(const char *what, const char *key, double now)
{
    char value[VALUE], *end;
    double best = 0;

    if (recall(what, key, value)) {
        best = strtod(value, &end);
        best = end != value && !*end && best - best == 0 ? best : 0;
    }
    if (!(now > best))
        return best;
    snprintf(value, sizeof value, "%.17g", now);
    remember(what, key, value);
    return now;
}
