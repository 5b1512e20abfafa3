/* library.h - opens a shared library at run time.
 *
 *     enum kvr_status st = kvr_library_open(&library, "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
 *     ...
 *     dlclose(library);
 *
 * A caller can continue without an optional library, but must fail if memory is short while the
 * library is loaded. The returned status distinguishes a missing library from exhausted memory. */
#ifndef KVR_CORE_LIBRARY_H
#define KVR_CORE_LIBRARY_H

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a library with the flags of dlopen; the caller closes it. Fails with KVR_ENOMEM if memory
 * is short, and with KVR_EUNSUPPORTED and the loader's message if the file is not found or not a
 * library. After a failure *out is NULL. */
enum kvr_status kvr_library_open(void **out, const char *name, int flags);

#ifdef __cplusplus
}
#endif
#endif
