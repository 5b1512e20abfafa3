/* memtext.c - see memtext.h. */
#include "harness/core/memtext.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct memtext {
    char **text, *at;
    size_t *size, n, capacity;
    bool lost; /* an allocation has failed, so all later writes fail */
};

static bool make_room(struct memtext *m, size_t n)
{
    size_t capacity = m->capacity ? m->capacity : 256;
    char *bigger;

    while (capacity < m->n + n + 1)
        capacity *= 2;
    if (capacity == m->capacity)
        return true;
    bigger = realloc(m->at, capacity);
    if (!bigger)
        return false;
    m->at = bigger;
    m->capacity = capacity;
    return true;
}

static ssize_t put(void *cookie, const char *p, size_t n)
{
    struct memtext *m = cookie;

    if (m->lost || !make_room(m, n)) {
        m->lost = true;
        return 0;
    }
    memcpy(m->at + m->n, p, n);
    m->n += n;
    return (ssize_t)n;
}

/* Used by ftell() only. */
static int tell(void *cookie, off64_t *at, int whence)
{
    if (whence != SEEK_CUR || *at != 0)
        return -1;
    *at = (off64_t)((struct memtext *)cookie)->n;
    return 0;
}

static int end(void *cookie)
{
    struct memtext *m = cookie;
    const bool whole = !m->lost && make_room(m, 0);

    if (whole)
        m->at[m->n] = 0;
    else
        free(m->at);
    *m->text = whole ? m->at : NULL;
    *m->size = whole ? m->n : 0;
    free(m);
    return whole ? 0 : EOF;
}

FILE *kvr_text_open(char **text, size_t *n)
{
    const cookie_io_functions_t io = { .write = put, .seek = tell, .close = end };
    struct memtext *m = calloc(1, sizeof *m);
    FILE *to;

    *text = NULL;
    *n = 0;
    if (!m)
        return NULL;
    m->text = text;
    m->size = n;
    to = fopencookie(m, "w", io);
    if (!to)
        free(m);
    return to;
}

bool kvr_text_close(FILE *to, char **text)
{
    const bool printed = to && !ferror(to);

    if (to && fclose(to) == 0 && printed)
        return true;
    if (to)
        free(*text);
    *text = NULL;
    return false;
}
