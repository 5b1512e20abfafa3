/* memtext.h - a text that is printed into memory.
 *
 *     FILE *to = kvr_text_open(&text, &n);
 *     if (to)
 *         fprintf(to, ...);
 *     if (!kvr_text_close(to, &text))
 *         return kvr_fail(KVR_ENOMEM, ...);
 *
 * Not open_memstream(): glibc's drops what there is no memory for, goes on with what comes after it, and
 * neither ferror() nor fclose() tells. */
#ifndef KVR_CORE_MEMTEXT_H
#define KVR_CORE_MEMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A stream to print to; NULL without memory. *text and *n (bytes, the zero at the end apart) are set
 * when it is closed. */
FILE *kvr_text_open(char **text, size_t *n);

/* Closes `to`, which may be NULL. True when all that was printed is in *text, which is then the
 * caller's; else *text is NULL. */
bool kvr_text_close(FILE *to, char **text);

#endif
