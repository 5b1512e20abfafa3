/* memtext.h - prints text into memory.
 *
 *     FILE *to = kvr_text_open(&text, &n);
 *     if (to)
 *         fprintf(to, ...);
 *     if (!kvr_text_close(to, &text))
 *         return kvr_fail(KVR_ENOMEM, ...);
 *
 * Replaces open_memstream(): when memory is short, glibc's open_memstream() drops output and
 * continues with later output, and neither ferror() nor fclose() reports it. */
#ifndef KVR_CORE_MEMTEXT_H
#define KVR_CORE_MEMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Opens a stream; NULL: out of memory. Closing sets *text and *n, the bytes without the final
 * zero. */
FILE *kvr_text_open(char **text, size_t *n);

/* Closes `to`, which may be NULL. True if *text has all output and belongs to the caller; else
 * *text is NULL. */
bool kvr_text_close(FILE *to, char **text);

#endif
