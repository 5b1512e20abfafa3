/* cache_names.c - the names of attention paths and of the number formats of attention's products. */
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/opts.h"

const char *const kvr_path_names[] = { "staged", "fused", "dense", "decoded", NULL };

const char *const kvr_attend_names[] = { "float", "int8", NULL };

/* Returns the index of a name in a NULL-terminated list, or -1 if the list does not have the
 * name. */
static int find_name(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

bool kvr_attend_find(const char *name, enum kvr_attend_as *out)
{
    const int i = find_name(kvr_attend_names, name);

    if (i >= 0)
        *out = (enum kvr_attend_as)i;
    return i >= 0;
}

bool kvr_path_find(const char *name, enum kvr_path *out)
{
    const int i = find_name(kvr_path_names, name);

    if (i >= 0)
        *out = (enum kvr_path)i;
    return i >= 0;
}

enum kvr_status kvr_attend_parse(enum kvr_attend_as *out, const char *what, const char *name)
{
    int i;

    KVR_TRY(kvr_name_parse(&i, kvr_attend_names, what, name));
    *out = (enum kvr_attend_as)i;
    return KVR_OK;
}

enum kvr_status kvr_path_parse(enum kvr_path *out, const char *what, const char *name)
{
    int i;

    KVR_TRY(kvr_name_parse(&i, kvr_path_names, what, name));
    *out = (enum kvr_path)i;
    return KVR_OK;
}
