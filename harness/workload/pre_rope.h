/* pre_rope.h - extracts calibration data from an observed attention call: the current chunk's
 * values, or its keys before RoPE. */
#ifndef KVR_WORKLOAD_PRE_ROPE_H
#define KVR_WORKLOAD_PRE_ROPE_H

#include "harness/cache/cache.h"

struct kvr_pre_rope {
    double *angles; /* scratch memory for the rotation angles of one position: cosines [D/2 + 1],
                     * then sines [D/2 + 1] */
    float *x;       /* [n_tok,Hkv,D]: values, or keys before RoPE */
    size_t capacity;
};

/* Sets rows->x to the current chunk's values (side KVR_V), or to its keys with RoPE undone (side
 * KVR_K). */
enum kvr_status kvr_pre_rope_take(struct kvr_pre_rope *rows, const struct kvr_cache_view *view,
                                  enum kvr_side side);
void kvr_pre_rope_free(struct kvr_pre_rope *rows);

#endif
