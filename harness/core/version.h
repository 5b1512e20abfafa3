/* version.h - identity of the build. No function returns NULL. */
#ifndef KVR_CORE_VERSION_H
#define KVR_CORE_VERSION_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *kvr_version(void);  /* "0.1.0" */
const char *kvr_git_hash(void); /* 40 hex digits, or "unknown" outside a checkout */
bool kvr_git_dirty(void);       /* the checkout had uncommitted changes */
/* 16 hex digits: hash of all sources that affect stored numbers (Makefile: CODE). Builds with equal
 * hashes give comparable measurements, whatever their commits. */
const char *kvr_code_hash(void);
const char *kvr_compiler(void); /* "gcc: 12.2.0" */
const char *kvr_cflags(void);   /* flags that affect code generation */

#ifdef __cplusplus
}
#endif
#endif
