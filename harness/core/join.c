/* join.c - see join.h. */
#include "harness/core/join.h"

#include <stdio.h>
#include <string.h>

static void add(char *buf, size_t n, const char *separator, const char *item)
{
    static const char cut[] = "...";
    const size_t used = strlen(buf);

    if (used >= 3 && strcmp(buf + used - 3, cut) == 0)
        return;
    /* Room for this item and, after it, ", ..." */
    if (used + strlen(separator) + strlen(item) + 6 >= n) {
        separator = used ? ", " : "";
        item = cut;
    }
    snprintf(buf + used, n - used, "%s%s", separator, item);
}

void kvr_join(char *buf, size_t n, const char *item)
{
    add(buf, n, buf[0] ? ", " : "", item);
}

const char *kvr_join_all(char *buf, size_t n, const char *const *names)
{
    buf[0] = 0;
    for (int i = 0; names[i]; i++)
        kvr_join(buf, n, names[i]);
    return buf;
}

const char *kvr_join_or(char *buf, size_t n, const char *const *names)
{
    buf[0] = 0;
    for (int i = 0; names[i]; i++)
        add(buf, n, !i ? "" : names[i + 1] ? ", " : " or ", names[i]);
    return buf;
}
