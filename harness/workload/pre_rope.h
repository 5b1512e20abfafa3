/* pre_rope.h - values and pre-RoPE keys of an observed chunk, the input of calibrations. */
#ifndef KVR_WORKLOAD_PRE_ROPE_H
#define KVR_WORKLOAD_PRE_ROPE_H

#include "harness/cache/cache.h"

struct kvr_pre_rope {
    double *angles; /* scratch for the angles of one position: cosines [D/2], then sines */
    float *x;       /* [n_tok,H,D] */
    size_t capacity;
};

/* Sets rows->x to the view's values, or to its keys with RoPE inverted at their positions.
 * KVR_ENOMEM. */
enum kvr_status kvr_pre_rope_take(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                  enum kvr_side side);
void kvr_pre_rope_free(struct kvr_pre_rope *rows);

#endif
