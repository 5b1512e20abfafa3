/* find.c - searches the data folders for models, suites and configs. */
#include "harness/plan/find.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/opts.h"
#include "harness/core/path.h"

const struct kvr_find kvr_find_model = { "model", "models", "", "config.json" };
const struct kvr_find kvr_find_suite = { "suite", "configs/suites", ".yaml", NULL };
const struct kvr_find kvr_find_config = { "config", "configs", ".yaml", NULL };
const struct kvr_find kvr_find_trace = { "trace", "traces", ".kvtrace", "index.json" };

enum { MAX_ROOTS = 6, MAX_NAMES = 1024 };

struct roots {
    int n;
    char dir[MAX_ROOTS][PATH_MAX];
};

static void add_root(struct roots *r, const char *dir, const char *below)
{
    int len;

    if (!dir || !dir[0] || r->n == MAX_ROOTS)
        return;
    len = snprintf(r->dir[r->n], PATH_MAX, "%s%s", dir, below);
    if (len > 0 && len < PATH_MAX)
        r->n++;
}

static void folder_of(const char *path, char *out, size_t n)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    snprintf(out, n, "%s", dirname(copy));
}

static void data_roots(struct roots *r, const char *config_path)
{
    char dir[PATH_MAX], exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);

    r->n = 0;
    add_root(r, ".", "");
    if (config_path) {
        folder_of(config_path, dir, sizeof dir);
        add_root(r, dir, "");
        add_root(r, dir, "/..");
    }
    add_root(r, getenv("KVREEL_DATA"), "");
    if (len > 0) {
        exe[len] = 0;
        folder_of(exe, dir, sizeof dir);
        add_root(r, dir, "/../share/kvreel");
        add_root(r, dir, "/..");
    }
}

static bool usable(const struct kvr_find *f, const char *path)
{
    char inner[PATH_MAX];
    int len;

    if (!f->inside)
        return access(path, R_OK) == 0;
    len = snprintf(inner, sizeof inner, "%s/%s", path, f->inside);
    return len > 0 && len < (int)sizeof inner && access(inner, R_OK) == 0;
}

static const char *without_dot(const char *path)
{
    return strncmp(path, "./", 2) == 0 ? path + 2 : path;
}

static bool try_path(const struct kvr_find *f, const char *path, char *out, size_t n)
{
    const char *p = without_dot(path);

    if (!usable(f, p) || strlen(p) >= n)
        return false;
    memcpy(out, p, strlen(p) + 1);
    return true;
}

/* Searches for a name without slashes in the working directory and then in the config's folder. */
static bool try_here(const struct kvr_find *f, const char *name, const char *config_path, char *out,
                     size_t n)
{
    char path[PATH_MAX * 2], dir[PATH_MAX];

    snprintf(path, sizeof path, "./%s%s", name, f->suffix);
    if (try_path(f, path, out, n))
        return true;
    if (!config_path)
        return false;
    folder_of(config_path, dir, sizeof dir);
    snprintf(path, sizeof path, "%s/%s%s", dir, name, f->suffix);
    return try_path(f, path, out, n);
}

static enum kvr_status fail_with_nearest(const struct kvr_find *f, const char *name,
                                         const char *config_path)
{
    char **names = NULL;
    const char *near = NULL;

    if (kvr_find_names(f, config_path, &names) == KVR_OK)
        near = kvr_nearest(name, (const char *const *)names);
    if (near)
        kvr_fail(KVR_ENOTFOUND, "%s '%s' not found in %s/; did you mean '%s'?", f->what, name,
                 f->folder, near);
    else
        kvr_fail(
            KVR_ENOTFOUND,
            "%s '%s' not found: looked for %s/%s%s in the working directory, the config file's "
            "folder and its parent, $KVREEL_DATA and the program's data folder, and for ./%s%s%s%s",
            f->what, name, f->folder, name, f->suffix, name, f->suffix, f->inside ? "/" : "",
            f->inside ? f->inside : "");
    free(names);
    return KVR_ENOTFOUND;
}

enum kvr_status kvr_find_path(const struct kvr_find *f, const char *name, const char *config_path,
                              char *out, size_t n)
{
    char path[PATH_MAX * 2], dir[PATH_MAX];
    struct roots r;

    if (strlen(name) >= PATH_MAX)
        return kvr_fail(
            KVR_EINVAL,
            "%s '%.40s...': the name has %zu characters, at most %d are allowed in a path", f->what,
            name, strlen(name), PATH_MAX - 1);
    if (strchr(name, '/') || kvr_path_has_suffix(name, f->suffix)) {
        if (try_path(f, name, out, n))
            return KVR_OK;
        if (config_path && name[0] != '/') {
            folder_of(config_path, dir, sizeof dir);
            snprintf(path, sizeof path, "%s/%s", dir, name);
            if (try_path(f, path, out, n))
                return KVR_OK;
        }
        return kvr_fail(KVR_ENOTFOUND, "%s not found at %s%s%s", f->what, name,
                        f->inside ? "/" : "", f->inside ? f->inside : "");
    }
    data_roots(&r, config_path);
    for (int i = 0; i < r.n; i++) {
        int len = snprintf(path, sizeof path, "%s/%s/%s%s", r.dir[i], f->folder, name, f->suffix);

        if (len > 0 && len < (int)sizeof path && try_path(f, path, out, n))
            return KVR_OK;
    }
    return try_here(f, name, config_path, out, n) ? KVR_OK
                                                  : fail_with_nearest(f, name, config_path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Appends the names of the models, suites or configs in one folder to names [MAX_NAMES][NAME_MAX +
 * 1]. -1: out of memory. */
static int scan(const struct kvr_find *f, const char *root, char (*names)[NAME_MAX + 1], int n)
{
    char dir[PATH_MAX * 2], path[PATH_MAX * 3];
    struct dirent *e;
    DIR *d;

    snprintf(dir, sizeof dir, "%s/%s", root, f->folder);
    d = opendir(dir);
    if (!d)
        return errno == ENOMEM ? -1 : n;
    while (n < MAX_NAMES && (e = readdir(d)) != NULL) {
        size_t len = strlen(e->d_name), cut = strlen(f->suffix);

        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || (cut && !kvr_path_has_suffix(e->d_name, f->suffix)) ||
            !usable(f, path))
            continue;
        memcpy(names[n], e->d_name, len - cut);
        names[n++][len - cut] = 0;
    }
    closedir(d);
    return n;
}

enum kvr_status kvr_find_names(const struct kvr_find *f, const char *config_path, char ***out)
{
    char(*names)[NAME_MAX + 1] = malloc(MAX_NAMES * sizeof *names);
    struct roots r;
    int n = 0, kept = 0;
    char *text;

    *out = malloc((MAX_NAMES + 1) * sizeof **out + MAX_NAMES * sizeof *names);
    if (!names || !*out) {
        free(names);
        free(*out);
        *out = NULL;
        return kvr_fail(KVR_ENOMEM, "find: out of memory");
    }
    data_roots(&r, config_path);
    for (int i = 0; i < r.n && n >= 0; i++)
        n = scan(f, r.dir[i], names, n);
    if (n < 0) {
        free(names);
        free(*out);
        *out = NULL;
        return kvr_fail(KVR_ENOMEM, "find: out of memory while listing %s/", f->folder);
    }
    qsort(names, (size_t)n, sizeof *names, by_name);
    text = (char *)(*out + MAX_NAMES + 1);
    for (int i = 0; i < n; i++) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        (*out)[kept++] = text;
        text = stpcpy(text, names[i]) + 1;
    }
    (*out)[kept] = NULL;
    free(names);
    return KVR_OK;
}
