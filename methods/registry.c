/* registry.c - the array of the methods of methods.def, and the lookup of methods, stages and
 * policies, built-in or from plug-ins. */
#include <stdio.h>
#include <string.h>

#include "methods/plugin.h"

#define METHOD(sym, ...) static const struct kvr_method method_##sym = { __VA_ARGS__ };
#include "methods/methods.def"

#define METHOD(sym, ...) &method_##sym,
const struct kvr_method *const kvr_methods[] = {
#include "methods/methods.def"
    NULL
};

/* Defines a function that returns the i-th element of one kind: first the built-in elements, then
 * those of each plug-in in loading order. The function returns NULL if i is too large. */
#define AT(function, type, built_in, list)                                                         \
    const struct type *function(int i)                                                             \
    {                                                                                              \
        const struct type *const *parts = built_in;                                                \
        int plugin = 0;                                                                            \
                                                                                                   \
        for (;;) {                                                                                 \
            const struct kvr_loaded_plugin *l;                                                     \
                                                                                                   \
            for (; parts && *parts; parts++)                                                       \
                if (i-- == 0)                                                                      \
                    return *parts;                                                                 \
            l = kvr_plugin_at(plugin++);                                                           \
            if (!l)                                                                                \
                return NULL;                                                                       \
            parts = l->plugin->list;                                                               \
        }                                                                                          \
    }

AT(kvr_stage_at, kvr_stage, kvr_stages, stages)
AT(kvr_tiers_at, kvr_tiers, kvr_tiers_parts, tiers)
AT(kvr_retention_at, kvr_retention, kvr_retention_parts, retention)
AT(kvr_method_at, kvr_method, kvr_methods, methods)

static const struct {
    const char *name, *of;
} aliases[] = {
#define ALIAS(name, of) { #name, #of },
#include "methods/methods.def"
};

const char kvr_reference_method[] = "BF16";

bool kvr_is_reference_method(const char *name)
{
    return strcmp(name, kvr_reference_method) == 0;
}

const struct kvr_method *kvr_method_find(const char *name)
{
    const struct kvr_method *m;

    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(name, aliases[i].name))
            name = aliases[i].of;
    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++)
        if (!strcmp(m->name, name))
            return m;
    return NULL;
}

bool kvr_method_spec(const struct kvr_method *m, int i, char *spec, size_t n)
{
    if (i > 0 && !m->study)
        i++;
    if (i >= 2 && (i - 2 >= KVR_MAX_SHIPPED || !m->shipped[i - 2].project))
        return false;
    snprintf(spec, n, "%s%s%s", m->name, i ? "@" : "",
             i == 0   ? ""
             : i == 1 ? "study"
                      : m->shipped[i - 2].project);
    return true;
}

enum kvr_status kvr_method_require(const struct kvr_method **out, const char *name)
{
    /* only the first 255 names are compared to suggest a similar name */
    const char *names[256] = { NULL };
    const struct kvr_method *m;
    const char *near;

    *out = kvr_method_find(name);
    if (*out)
        return KVR_OK;
    for (int i = 0; i < 255 && (m = kvr_method_at(i)) != NULL; i++)
        names[i] = m->name;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_ENOTFOUND, "unknown method '%s'%s%s%s; `kvreel list methods` shows all",
                    name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
