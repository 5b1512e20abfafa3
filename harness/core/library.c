/* library.c - see library.h. */
#include "harness/core/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* Whether a text of dlerror() reports a lack of memory. Other errors have the form "OBJECT: REASON:
 * ERROR". If memory is exhausted, dlerror() returns NULL, a text without "OBJECT: ", or a text that
 * contains "out of memory" or the message of ENOMEM. */
static bool is_oom_message(const char *why)
{
    return !why || !strstr(why, ": ") || strstr(why, "out of memory") ||
           strstr(why, strerror(ENOMEM));
}

enum kvr_status kvr_library_open(void **out, const char *name, int flags)
{
    const char *why;
    bool memory;

    errno = 0;
    *out = dlopen(name, flags);
    if (*out)
        return KVR_OK;
    memory = errno == ENOMEM;
    why = dlerror(); /* may change errno */
    if (memory || is_oom_message(why))
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while loading the library", name);
    return kvr_fail(KVR_EUNSUPPORTED, "%s", why);
}
