/* statement.c - replaces placeholders in a statement's text. */
#include "harness/store/statement.h"
#include "harness/core/memtext.h"

#include <stdlib.h>
#include <string.h>

/* Returns the replacement for the placeholder at `at`, and sets *length to the length of the
 * placeholder. NULL: no known placeholder. */
static const char *filling(const char *at, const char *const *with, size_t *length)
{
    for (; *with; with += 2) {
        const size_t n = strlen(with[0]);

        if (strncmp(at + 1, with[0], n) == 0 && at[n + 1] == '}') {
            *length = n + 2;
            return with[1];
        }
    }
    return NULL;
}

void kvr_statement_put(FILE *to, const char *text, const char *const *with)
{
    size_t length = 0;

    while (*text) {
        const char *s = *text == '{' ? filling(text, with, &length) : NULL;

        if (s) {
            fputs(s, to);
            text += length;
        } else {
            fputc(*text++, to);
        }
    }
}

char *kvr_statement_fill(const char *text, const char *const *with)
{
    char *filled = NULL;
    size_t size;
    FILE *to = kvr_text_open(&filled, &size);

    if (to)
        kvr_statement_put(to, text, with);
    kvr_text_close(to, &filled);
    return filled;
}
