/* library.h - a shared library that is opened while the program runs.
 *
 *     enum kvr_status st = kvr_library_open(&library, "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
 *     ...
 *     dlclose(library);
 *
 * Without memory the loader finds no library either, and says so in other words or in none. What is
 * not there may be done without; what could not be looked for is a failure. */
#ifndef KVR_CORE_LIBRARY_H
#define KVR_CORE_LIBRARY_H

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `flags` are dlopen's; the library is the caller's to close.
 * KVR_ENOMEM: no memory to look for it or to load it; KVR_EUNSUPPORTED: it is not there or is none, in
 * the loader's words. *out is NULL then. */
enum kvr_status kvr_library_open(void **out, const char *name, int flags);

#ifdef __cplusplus
}
#endif
#endif
