/* statement.c - places in a statement that its caller fills. */
#include "harness/store/statement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands for the place that begins at `at`, and its length; NULL: it is another's. */
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

char *kvr_statement_fill(const char *sql, const char *const *with)
{
    char *text = NULL;
    size_t size, length = 0;
    FILE *to = open_memstream(&text, &size);

    while (to && *sql) {
        const char *s = *sql == '{' ? filling(sql, with, &length) : NULL;

        if (s) {
            fputs(s, to);
            sql += length;
        } else {
            fputc(*sql++, to);
        }
    }
    if (!to || fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
