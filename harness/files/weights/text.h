/* text.h - names that come from files: checked, and made fit to be shown.
 *
 *     char shown[KVR_SHOWN];
 *     return kvr_fail(KVR_EFORMAT, "%s: tensor '%s'", path, kvr_shown(shown, name, n));
 *
 * A hostile file chooses its names; a message holds no more than 64 characters of one, and only
 * letters, digits, '.' and '_' as they are. Everything else becomes '?'. */
#ifndef KVR_WEIGHTS_TEXT_H
#define KVR_WEIGHTS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_SHOWN = 68 };

/* n bytes of text into buf, always terminated; returns buf. A cut name ends in "..". */
const char *kvr_shown(char buf[KVR_SHOWN], const void *text, size_t n);
const char *kvr_shown_string(char buf[KVR_SHOWN], const char *text);

/* UTF-8 as RFC 3629 wants it: shortest form, no surrogates, at most U+10FFFF, and no NUL. */
bool kvr_is_utf8(const void *text, size_t n);

#ifdef __cplusplus
}
#endif
#endif
