/* plugin.c - loads a plug-in (a shared object or a Python file), checks it, and registers its
 * stages, tiers, retentions and methods. */
#include "methods/plugin.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/library.h"
#include "methods/plugin_file.h"
#include "methods/script/script.h"

static_assert(KVR_PLUGIN_PATH >= PATH_MAX, "realpath writes PATH_MAX bytes");

/* The loaded plug-ins. No lock protects them (plugin.h); the registry has no other global
 * variables. */
static struct kvr_loaded_plugin *loaded[KVR_PLUGIN_MAX];
static int n_loaded;

const struct kvr_loaded_plugin *kvr_plugin_at(int i)
{
    return i >= 0 && i < n_loaded ? loaded[i] : NULL;
}

/* Opens each method of the plug-in once, to check the text of its pipelines. The plug-in's stages
 * and policies must already be registered, because its methods may use them. */
static enum kvr_status open_methods(const struct kvr_plugin *p)
{
    for (int i = 0; p->methods && p->methods[i]; i++) {
        struct kvr_scheme *scheme;
        enum kvr_status st = kvr_scheme_open(&scheme, p->methods[i]->name, NULL, 0);

        if (st != KVR_OK)
            return kvr_fail_prefix(st == KVR_ENOMEM ? st : KVR_EINVAL, "method '%s'",
                                   p->methods[i]->name);
        kvr_scheme_close(&scheme);
    }
    return KVR_OK;
}

static enum kvr_status find_export(void *handle, const char *path, const struct kvr_plugin **out)
{
    const struct kvr_loaded_plugin *l;

    *out = dlsym(handle, "kvr_plugin_export");
    if (!*out)
        return kvr_fail(KVR_EFORMAT,
                        "plug-in %s: the file exports no symbol 'kvr_plugin_export'; define it "
                        "with the macro KVR_PLUGIN",
                        path);
    for (int i = 0; (l = kvr_plugin_at(i)) != NULL; i++)
        if (l->plugin == *out)
            return KVR_OK; /* this shared object is already loaded under another path */
    return kvr_plugin_check(*out, path);
}

static enum kvr_status add(const struct kvr_plugin *p, const char *path, const char *sha256)
{
    struct kvr_loaded_plugin *l;
    enum kvr_status st;

    for (int i = 0; i < n_loaded; i++)
        if (loaded[i]->plugin == p)
            return KVR_OK;
    if (n_loaded == KVR_PLUGIN_MAX)
        return kvr_fail(KVR_EINVAL,
                        "plug-in %s: %d plug-ins are already loaded, which is the maximum", path,
                        KVR_PLUGIN_MAX);
    l = calloc(1, sizeof *l);
    if (!l)
        return kvr_fail(KVR_ENOMEM, "plug-in %s: out of memory", path);
    l->plugin = p;
    strcpy(l->path, path);
    strcpy(l->sha256, sha256);
    loaded[n_loaded++] = l;
    st = open_methods(p);
    if (st != KVR_OK) {
        n_loaded--;
        free(l);
        return kvr_fail_prefix(st, "plug-in %s", path);
    }
    return KVR_OK;
}

/* Loads a Python file, unless a file with the same path and content is already loaded. */
static enum kvr_status load_script(const char *path, const char *sha256)
{
    const struct kvr_loaded_plugin *l;
    const struct kvr_plugin *p;
    enum kvr_status st;

    for (int i = 0; (l = kvr_plugin_at(i)) != NULL; i++)
        if (!strcmp(l->path, path) && !strcmp(l->sha256, sha256))
            return KVR_OK;
    KVR_TRY(kvr_script_open(path, &p));
    st = kvr_plugin_check(p, path);
    if (st == KVR_OK)
        st = add(p, path, sha256);
    if (st != KVR_OK)
        kvr_script_close(p);
    return st;
}

enum kvr_status kvr_plugin_load(const char *path)
{
    char full[KVR_PLUGIN_PATH], sha256[KVR_SHA256_HEX];
    const int n_before = n_loaded;
    const struct kvr_plugin *p;
    enum kvr_status st;
    struct stat s;
    void *handle;

    /* Use an absolute path, because dlopen searches the library path for a name without a slash. */
    if (!realpath(path, full))
        return kvr_fail(KVR_ENOTFOUND, "plug-in %s: %s", path, strerror(errno));
    /* Accept only regular files, because opening a FIFO would block. */
    if (stat(full, &s) != 0 || !S_ISREG(s.st_mode))
        return kvr_fail(KVR_EFORMAT, "plug-in %s: not a regular file", full);
    KVR_TRY(kvr_sha256_file(full, sha256));
    if (kvr_script_is(full))
        return load_script(full, sha256);
    KVR_TRY(kvr_plugin_check_file(full));
    st = kvr_library_open(&handle, full, RTLD_NOW | RTLD_LOCAL);
    if (st == KVR_ENOMEM)
        return kvr_fail_prefix(st, "plug-in");
    if (st != KVR_OK)
        return kvr_fail_prefix(KVR_EFORMAT, "plug-in %s: cannot be loaded", full);
    st = find_export(handle, full, &p);
    if (st == KVR_OK)
        st = add(p, full, sha256);
    /* A registered library stays loaded until the program exits. If it was registered before, its
     * first handle keeps it loaded. */
    if (st != KVR_OK || n_loaded == n_before)
        dlclose(handle);
    return st;
}

static bool has_stage(const struct kvr_plugin *p, const struct kvr_codec *c)
{
    for (int i = 0; p->stages && p->stages[i]; i++)
        for (int j = 0; c && j < c->n_stages; j++)
            if (c->stage[j].stage == p->stages[i])
                return true;
    return false;
}

bool kvr_plugin_used(const struct kvr_plugin *p, const struct kvr_scheme *scheme)
{
    for (int i = 0; p->methods && p->methods[i]; i++)
        if (scheme->method == p->methods[i])
            return true;
    for (int i = 0; p->tiers && p->tiers[i]; i++)
        if (scheme->tiers.part == p->tiers[i])
            return true;
    for (int i = 0; p->retention && p->retention[i]; i++)
        if (scheme->retention.part == p->retention[i])
            return true;
    for (int t = 0; t < scheme->n_tiers; t++)
        if (has_stage(p, scheme->k[t]) || has_stage(p, scheme->v[t]))
            return true;
    return false;
}
