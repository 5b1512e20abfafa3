/* utf8.h - UTF-8 validation for file contents and names. */
#ifndef KVR_CORE_UTF8_H
#define KVR_CORE_UTF8_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of bytes of the first UTF-8 character of the zero-terminated text `s`. Returns 1 for the
 * terminating zero and 0 for malformed UTF-8. */
int kvr_utf8_length(const char *s);
bool kvr_utf8_is(const char *s); /* whether the whole text is valid UTF-8 */

#ifdef __cplusplus
}
#endif
#endif
