/* segment.c - returns the token indices and the size in bytes of a segment. */
#include "harness/cache/segment.h"

/* Returns the segment's list of token indices in host memory. */
static const int32_t *tokens(const struct kvr_segment *s)
{
    return s->shown.p ? s->shown.p : s->list.p;
}

void kvr_segment_free(struct kvr_segment *s)
{
    kvr_packed_free(&s->k);
    kvr_packed_free(&s->v);
    kvr_buf_free(&s->list);
    kvr_buf_free(&s->shown);
    kvr_buf_free(&s->moments);
}

size_t kvr_segment_resident(const struct kvr_segment *s)
{
    return kvr_packed_bytes(&s->k) + kvr_packed_bytes(&s->v) + s->list.n_bytes + s->moments.n_bytes;
}

int64_t kvr_segment_token(const struct kvr_segment *s, int64_t i)
{
    return s->listed ? tokens(s)[i] : s->tok0 + i;
}

int64_t kvr_segment_lower(const struct kvr_segment *s, int64_t tok)
{
    int64_t lo = 0, hi = s->n_tok;

    if (!s->listed) {
        int64_t i = tok - s->tok0;

        return i < 0 ? 0 : i > s->n_tok ? s->n_tok : i;
    }
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (tokens(s)[mid] < tok)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
