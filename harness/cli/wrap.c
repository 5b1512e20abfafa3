/* wrap.c - see wrap.h. */
#include "harness/cli/wrap.h"

#include <stdbool.h>
#include <string.h>

void kvr_wrap(FILE *to, size_t column, size_t indent, const char *text)
{
    bool first = true;

    for (size_t n; text += strspn(text, " "), (n = strcspn(text, " ")) > 0; text += n) {
        if (!first && column + 1 + n > KVR_WRAP_WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)n, text);
        column += n;
        first = false;
    }
    fputc('\n', to);
}

void kvr_wrap_entry(FILE *to, size_t indent, const char *term, const char *text)
{
    const size_t n = strlen(term) + 2;

    fprintf(to, "  %s%*s", term, n < indent ? (int)(indent - n) : 0, "");
    if (n >= indent)
        fprintf(to, "\n%*s", (int)indent, "");
    kvr_wrap(to, indent, indent, text);
}
