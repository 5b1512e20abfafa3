/* utf8.h - UTF-8 validation for file contents and names. */
#ifndef KVR_CORE_UTF8_H
#define KVR_CORE_UTF8_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the first character of the NUL-terminated text `s`; 1 for the NUL itself; 0:
 * malformed. */
int kvr_utf8_length(const char *s);
bool kvr_utf8_is(const char *s); /* the whole text is valid */

#ifdef __cplusplus
}
#endif
#endif
