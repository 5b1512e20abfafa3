/* registry.c - methods.def as an array, and looking names up in it. */
#include <string.h>

#include "methods/method.h"

#define METHOD(sym, ...) static const struct kvr_method method_##sym = { __VA_ARGS__ };
#include "methods/methods.def"
#undef METHOD

#define METHOD(sym, ...) &method_##sym,
const struct kvr_method *const kvr_methods[] = {
#include "methods/methods.def"
    NULL
};
#undef METHOD

const struct kvr_method *kvr_method_find(const char *name)
{
    for (int i = 0; kvr_methods[i]; i++)
        if (!strcmp(kvr_methods[i]->name, name))
            return kvr_methods[i];
    return NULL;
}

enum kvr_status kvr_method_require(const struct kvr_method **out, const char *name)
{
    const char *names[sizeof kvr_methods / sizeof *kvr_methods] = { NULL };
    const char *near;

    *out = kvr_method_find(name);
    if (*out)
        return KVR_OK;
    for (int i = 0; kvr_methods[i]; i++)
        names[i] = kvr_methods[i]->name;
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_ENOTFOUND, "no method '%s'%s%s%s (`kvreel list methods` shows them all)",
                    name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
