/* turned.c - see turned.h. */
#include "harness/workload/turned.h"

#include <stdlib.h>

#include "methods/kernels/rope.h"

static enum kvr_status make_room(struct kvr_turned *turned, size_t n, int head_dim)
{
    float *x;

    if (!turned->angles)
        turned->angles = calloc((size_t)head_dim + 2, sizeof *turned->angles);
    if (!turned->angles)
        return kvr_fail(KVR_ENOMEM, "profile: no memory for angles of %d channels", head_dim);
    if (n <= turned->room)
        return KVR_OK;
    x = realloc(turned->x, n * sizeof *x);
    if (!x)
        return kvr_fail(KVR_ENOMEM, "profile: no memory for %zu values", n);
    turned->x = x;
    turned->room = n;
    return KVR_OK;
}

static enum kvr_status turn_back(struct kvr_turned *turned, const struct kvr_cache_view *view,
                                 int heads)
{
    const int frame = view->shape->tokens_per_frame, d = view->shape->head_dim;
    double *cosines = turned->angles, *sines = cosines + d / 2 + 1;
    float *k = turned->x;
    int row;

    KVR_TRY(kvr_frame_row("profile", frame, 0, &row));
    for (int64_t t = 0; t < view->n_tok; t++) {
        const int place = (int)(t % frame);

        kvr_rope_angles(d, view->pass->frame0 + (int)(t / frame) + view->pass->shift, place / row,
                        place % row, cosines, sines);
        for (int h = 0; h < heads; h++, k += d)
            kvr_rope_turn(k, d, cosines, sines, true, k);
    }
    return KVR_OK;
}

enum kvr_status kvr_turned_take(struct kvr_turned *turned, const struct kvr_cache_view *view,
                                enum kvr_side side)
{
    const struct kvr_cache_shape *s = view->shape;
    const int heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    const size_t n = (size_t)view->n_tok * (size_t)heads * (size_t)s->head_dim;

    KVR_TRY(make_room(turned, n, s->head_dim));
    kvr_to_f32(turned->x, side == KVR_V ? view->v : view->k, s->exact, n);
    return side == KVR_K ? turn_back(turned, view, heads) : KVR_OK;
}

void kvr_turned_free(struct kvr_turned *turned)
{
    free(turned->angles);
    free(turned->x);
    *turned = (struct kvr_turned){ 0 };
}
