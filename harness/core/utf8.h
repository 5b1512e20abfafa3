/* utf8.h - reads, writes and validates UTF-8 by RFC 3629: shortest form, no surrogates, at most
 * U+10FFFF. */
#ifndef KVR_CORE_UTF8_H
#define KVR_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the first code point of the n bytes at s into *c. Returns the number of bytes of this code
 * point, or 0 if the bytes are not valid UTF-8 or n is 0. */
int kvr_utf8_read(const void *s, size_t n, uint32_t *c);
int kvr_utf8_write(uint32_t c, char to[4]); /* returns the length of the UTF-8 text in bytes */

/* Number of bytes of the first UTF-8 character of the zero-terminated text `s`. Returns 1 for the
 * terminating zero and 0 for malformed UTF-8. */
int kvr_utf8_length(const char *s);
bool kvr_utf8_is(const char *s); /* whether the whole text is valid UTF-8 */
/* Whether the n bytes at s, which may contain NUL characters, are valid UTF-8. */
bool kvr_utf8_is_n(const void *s, size_t n);

#ifdef __cplusplus
}
#endif
#endif
