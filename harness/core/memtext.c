/* memtext.c - see memtext.h. */
#include "harness/core/memtext.h"

#include <stdlib.h>

bool kvr_text_close(FILE *to, char **text)
{
    const bool printed = to && fclose(to) == 0;

    if (printed && *text)
        return true;
    if (to)
        free(*text);
    *text = NULL;
    return false;
}
