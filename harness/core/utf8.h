/* utf8.h - is it UTF-8? What files and file names have may be anything. */
#ifndef KVR_CORE_UTF8_H
#define KVR_CORE_UTF8_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the well-formed character at the terminated text `s`, 1 for the end; 0: there is none. */
int kvr_utf8_length(const char *s);
bool kvr_utf8_is(const char *s); /* all of it */

#ifdef __cplusplus
}
#endif
#endif
