/* wrap.c - see wrap.h. */
#include "harness/cli/wrap.h"

#include <stdbool.h>
#include <string.h>

/* Returns the length of the next piece of `text`: its first word, or if this is longer than `room`,
 * the part of the word up to the last ',' or '|' that fits. */
static size_t piece_length(const char *text, size_t room)
{
    const size_t word = strcspn(text, " ");
    size_t n = word > room ? room : 0;

    while (n > 0 && text[n - 1] != ',' && text[n - 1] != '|')
        n--;
    return n ? n : word;
}

void kvr_wrap(FILE *to, size_t column, size_t indent, const char *text)
{
    const size_t room = indent < KVR_WRAP_WIDTH ? KVR_WRAP_WIDTH - indent : 0;
    bool first = true, broken = false; /* broken: the last piece ended within a word */

    for (size_t n; text += strspn(text, " "), (n = piece_length(text, room)) > 0; text += n) {
        if (broken || (!first && column + 1 + n > KVR_WRAP_WIDTH)) {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)n, text);
        column += n;
        first = false;
        broken = text[n] && text[n] != ' ';
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
