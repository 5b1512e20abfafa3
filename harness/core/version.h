/* version.h - what this binary was built from. Nothing here is ever NULL. */
#ifndef KVR_CORE_VERSION_H
#define KVR_CORE_VERSION_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *kvr_version(void);  /* "0.1.0" */
const char *kvr_git_hash(void); /* 40 hex digits, or "unknown" outside a checkout */
bool kvr_git_dirty(void);       /* the checkout had uncommitted changes */
/* 16 hex digits: hash of all sources that a stored number depends on (Makefile: CODE). Two builds
 * with the same hash measure the same thing, whatever else was committed between them. */
const char *kvr_code_hash(void);
const char *kvr_compiler(void); /* "gcc: 12.2.0" */
const char *kvr_cflags(void);   /* the flags that change code */

#ifdef __cplusplus
}
#endif
#endif
