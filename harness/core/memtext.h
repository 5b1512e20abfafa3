/* memtext.h - the end of a text that was printed into memory.
 *
 *     FILE *to = open_memstream(&text, &n);
 *     if (to)
 *         fprintf(to, ...);
 *     if (!kvr_text_close(to, &text))
 *         return kvr_fail(KVR_ENOMEM, ...);
 *
 * fclose() alone does not tell: the last reallocation may fail and it returns 0, without a text. */
#ifndef KVR_CORE_MEMTEXT_H
#define KVR_CORE_MEMTEXT_H

#include <stdbool.h>
#include <stdio.h>

/* Closes `to`, which may be NULL. True when all that was printed is in *text, which is then the
 * caller's; else *text is NULL. */
bool kvr_text_close(FILE *to, char **text);

#endif
