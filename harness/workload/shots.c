/* shots.c - see shots.h. */
#include "harness/workload/shots.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Parses "@CHUNK:", the start of a shot, at p. Returns the text after it; NULL: p does not begin
 * with "@CHUNK:". */
static const char *start_at(const char *p, int *chunk)
{
    char *end;
    long v;

    if (*p != '@' || !isdigit((unsigned char)p[1]))
        return NULL;
    v = strtol(p + 1, &end, 10);
    if (*end != ':' || v > 1000000)
        return NULL;
    *chunk = (int)v;
    return end + 1;
}

/* Returns the next ';' in front of a shot's start such as "@4:", or the end of the text. */
static const char *next_start(const char *p)
{
    int chunk;

    for (; *p; p++) {
        const char *at = p + 1;

        if (*p != ';')
            continue;
        while (*at == ' ')
            at++;
        if (start_at(at, &chunk))
            return p;
    }
    return p;
}

static char *trimmed(const char *from, const char *to)
{
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return strndup(from, (size_t)(to - from));
}

static enum kvr_status add(struct kvr_shot_line *s, const char *line, const char *from,
                           const char *to, int chunk, int n_chunks)
{
    const size_t column = (size_t)(from - line) + 1;

    if (s->n == KVR_MAX_SHOTS)
        return kvr_fail(KVR_EINVAL,
                        "prompt: the text has more than the limit of %d shots ('@CHUNK: text', "
                        "separated by ';')",
                        KVR_MAX_SHOTS);
    if (s->n == 0 && chunk != 0)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: shot 1 begins at chunk %d (character %zu), but must begin at chunk 0", chunk,
            column);
    if (s->n > 0 && chunk <= s->shot[s->n - 1].from_chunk)
        return kvr_fail(KVR_EINVAL,
                        "prompt: shot %d begins at chunk %d (character %zu), but must begin after "
                        "shot %d, which begins at chunk %d",
                        s->n + 1, chunk, column, s->n, s->shot[s->n - 1].from_chunk);
    if (n_chunks && chunk >= n_chunks)
        return kvr_fail(
            KVR_EINVAL,
            "prompt: shot %d begins at chunk %d (character %zu), but the video has chunks 0..%d",
            s->n + 1, chunk, column, n_chunks - 1);
    s->shot[s->n].from_chunk = chunk;
    s->shot[s->n].text = trimmed(from, to);
    if (!s->shot[s->n].text)
        return kvr_fail(KVR_ENOMEM, "prompt: out of memory");
    if (!s->shot[s->n++].text[0])
        return kvr_fail(KVR_EINVAL,
                        "prompt: shot %d has no text (character %zu); need text after '@%d:'", s->n,
                        column, chunk);
    return KVR_OK;
}

enum kvr_status kvr_shot_line_parse(const char *text, int n_chunks, struct kvr_shot_line *out)
{
    struct kvr_shot_line s = { 0 };
    const char *from, *p = text;
    enum kvr_status st = KVR_OK;
    int chunk = 0;

    *out = s;
    from = start_at(p, &chunk);
    if (!from || chunk != 0) {
        s.shot[0].text = strdup(text);
        s.n = 1;
        st = s.shot[0].text ? KVR_OK : kvr_fail(KVR_ENOMEM, "prompt: out of memory");
        from = NULL;
    }
    while (from && st == KVR_OK) {
        p = next_start(from);
        st = add(&s, text, from, p, chunk, n_chunks);
        if (!*p)
            break;
        for (p++; *p == ' ';)
            p++;
        from = start_at(p, &chunk);
    }
    if (st != KVR_OK) {
        kvr_shot_line_free(&s);
        return st;
    }
    *out = s;
    return KVR_OK;
}

void kvr_shot_line_free(struct kvr_shot_line *s)
{
    for (int i = 0; i < KVR_MAX_SHOTS; i++)
        free(s->shot[i].text);
    *s = (struct kvr_shot_line){ 0 };
}

int kvr_shot_at(const struct kvr_shot_line *s, int chunk)
{
    int i = s->n - 1;

    while (i > 0 && s->shot[i].from_chunk > chunk)
        i--;
    return i;
}
