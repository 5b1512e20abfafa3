/* text.h - sanitizes names that were read from files for messages.
 *
 *     char shown[KVR_PRINTABLE];
 *     return kvr_fail(KVR_EFORMAT, "%s: tensor '%s'", path, kvr_printable(shown, name, n));
 *
 * Names in weight files are untrusted. A message shows at most 64 characters of a name, and
 * replaces all characters except letters, digits, '.' and '_' by '?'. */
#ifndef KVR_WEIGHTS_TEXT_H
#define KVR_WEIGHTS_TEXT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_PRINTABLE = 68 };

/* Copies a name, the n bytes at `text`, to buf, sanitized and NUL-terminated, and returns buf. A
 * truncated name ends in "..". */
const char *kvr_printable(char buf[KVR_PRINTABLE], const void *text, size_t n);
/* Like kvr_printable, for a NUL-terminated name. */
const char *kvr_shown_string(char buf[KVR_PRINTABLE], const char *text);

#ifdef __cplusplus
}
#endif
#endif
