/* library.h - opens a shared library at run time.
 *
 *     enum kvr_status st = kvr_library_open(&library, "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
 *     ...
 *     dlclose(library);
 *
 * A missing library is optional; a loader that runs out of memory is a failure. The status tells
 * them apart. */
#ifndef KVR_CORE_LIBRARY_H
#define KVR_CORE_LIBRARY_H

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `flags` as for dlopen; the caller closes the library. KVR_ENOMEM: no memory to find or load it;
 * KVR_EUNSUPPORTED: not found or not a library, with the loader's message. *out is then NULL. */
enum kvr_status kvr_library_open(void **out, const char *name, int flags);

#ifdef __cplusplus
}
#endif
#endif
