/* pre_rope.h - a watched chunk's keys before their rotary embedding, and its values: what calibrations
 * are made of. */
#ifndef KVR_WORKLOAD_PRE_ROPE_H
#define KVR_WORKLOAD_PRE_ROPE_H

#include "harness/cache/cache.h"

struct kvr_pre_rope {
    double *angles; /* of one place: cosines [D/2], then sines */
    float *x;       /* [n_tok,H,D] */
    size_t room;
};

/* rows->x becomes the view's keys, rows back by their places, or its values. KVR_ENOMEM. */
enum kvr_status kvr_pre_rope_take(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                  enum kvr_side side);
void kvr_pre_rope_free(struct kvr_pre_rope *rows);

#endif
