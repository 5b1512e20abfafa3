/* version.h - identity of the build. No function returns NULL. */
#ifndef KVR_CORE_VERSION_H
#define KVR_CORE_VERSION_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *kvr_version(void);  /* "0.1.0" */
const char *kvr_git_hash(void); /* Git commit as 40 hex digits, or "unknown" if the program was not
                                 * built in a checkout */
const char *kvr_git_date(void); /* date of the Git commit, as in "2026-11-28", or "" */
bool kvr_git_dirty(void);       /* whether the checkout had uncommitted changes */
/* Hash, in 16 hex digits, of all source files that affect the results in the database. The
 * Makefile's variable CODE lists these files. Measurements of builds with equal hashes are
 * comparable, even if their commits differ. */
const char *kvr_code_hash(void);
const char *kvr_compiler(void); /* "gcc: 12.2.0" */
const char *kvr_cflags(void);   /* compiler flags that affect code generation */

#ifdef __cplusplus
}
#endif
#endif
