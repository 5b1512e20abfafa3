/* text.h - validates names from files, and sanitizes them for messages.
 *
 *     char shown[KVR_PRINTABLE];
 *     return kvr_fail(KVR_EFORMAT, "%s: tensor '%s'", path, kvr_printable(shown, name, n));
 *
 * Names come from untrusted files. A message contains at most 64 characters of a name; letters,
 * digits, '.' and '_' are kept, all other characters become '?'. */
#ifndef KVR_WEIGHTS_TEXT_H
#define KVR_WEIGHTS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_PRINTABLE = 68 };

/* Copies n bytes of text into buf, sanitized and terminated; returns buf. A truncated name ends in
 * "..". */
const char *kvr_printable(char buf[KVR_PRINTABLE], const void *text, size_t n);
const char *kvr_shown_string(char buf[KVR_PRINTABLE], const char *text);

/* Whether the text is UTF-8 by RFC 3629 (shortest form, no surrogates, at most U+10FFFF) without
 * NUL. */
bool kvr_is_utf8(const void *text, size_t n);

#ifdef __cplusplus
}
#endif
#endif
