/* memtext.h - a stdio stream that writes to memory and reports every failed allocation.
 *
 *     FILE *to = kvr_text_open(&text, &n);
 *     if (to)
 *         fprintf(to, ...);
 *     if (!kvr_text_close(to, &text))
 *         return kvr_fail(KVR_ENOMEM, ...);
 *
 * Replaces open_memstream(). When memory is short, glibc's open_memstream() drops some output and
 * continues with later output, and neither ferror() nor fclose() reports the loss. */
#ifndef KVR_CORE_MEMTEXT_H
#define KVR_CORE_MEMTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Opens a stream; returns NULL if memory is short. Closing the stream sets *text and *n, the number
 * of bytes without the final zero. */
FILE *kvr_text_open(char **text, size_t *n);

/* Closes `to`, which may be NULL. Returns true if *text has all output; the caller then frees
 * *text. If output was lost, returns false and sets *text to NULL. */
bool kvr_text_close(FILE *to, char **text);

#endif
