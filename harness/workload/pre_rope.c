/* pre_rope.c - see pre_rope.h. */
#include "harness/workload/pre_rope.h"

#include <stdlib.h>

#include "methods/kernels/rope.h"

static enum kvr_status make_room(struct kvr_pre_rope *rows, size_t n, int head_dim)
{
    float *x;

    if (!rows->angles)
        rows->angles = calloc((size_t)head_dim + 2, sizeof *rows->angles);
    if (!rows->angles)
        return kvr_fail(KVR_ENOMEM,
                        "profile: out of memory while allocating RoPE angles of %d channels",
                        head_dim);
    if (n <= rows->capacity)
        return KVR_OK;
    x = realloc(rows->x, n * sizeof *x);
    if (!x)
        return kvr_fail(KVR_ENOMEM, "profile: out of memory while allocating %zu elements", n);
    rows->x = x;
    rows->capacity = n;
    return KVR_OK;
}

static enum kvr_status rotate_back(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                   int heads)
{
    const int frame = view->shape->tokens_per_frame, d = view->shape->head_dim;
    double *cosines = rows->angles, *sines = cosines + d / 2 + 1;
    float *k = rows->x;
    int row;

    KVR_TRY(kvr_frame_row("profile", frame, 0, &row));
    for (int64_t t = 0; t < view->n_tok; t++) {
        const int in_frame = (int)(t % frame);

        kvr_rope_angles(d, view->pass->frame0 + (int)(t / frame) + view->pass->shift,
                        in_frame / row, in_frame % row, cosines, sines);
        for (int h = 0; h < heads; h++, k += d)
            kvr_rope_rotate(k, d, cosines, sines, true, k);
    }
    return KVR_OK;
}

enum kvr_status kvr_pre_rope_take(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                  enum kvr_side side)
{
    const struct kvr_cache_shape *s = view->shape;
    const int heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    const size_t n = (size_t)view->n_tok * (size_t)heads * (size_t)s->head_dim;

    KVR_TRY(make_room(rows, n, s->head_dim));
    kvr_to_f32(rows->x, side == KVR_V ? view->v : view->k, s->exact, n);
    return side == KVR_K ? rotate_back(rows, view, heads) : KVR_OK;
}

void kvr_pre_rope_free(struct kvr_pre_rope *rows)
{
    free(rows->angles);
    free(rows->x);
    *rows = (struct kvr_pre_rope){ 0 };
}
