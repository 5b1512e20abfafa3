/* pre_rope.h - extracts the values, or the keys before RoPE, of a chunk from an observed attention
 * call, as calibration data. */
#ifndef KVR_WORKLOAD_PRE_ROPE_H
#define KVR_WORKLOAD_PRE_ROPE_H

#include "harness/cache/cache.h"

struct kvr_pre_rope {
    double *angles; /* scratch memory for the rotation angles of one position: cosines [D/2], then
                     * sines [D/2] */
    float *x;       /* [n_tok,H,D] */
    size_t capacity;
};

/* Sets rows->x to the values of the chunk, or to its keys with RoPE inverted. */
enum kvr_status kvr_pre_rope_take(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                  enum kvr_side side);
void kvr_pre_rope_free(struct kvr_pre_rope *rows);

#endif
