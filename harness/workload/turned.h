/* turned.h - a watched chunk's keys before their rotary embedding, and its values: what calibrations
 * are made of. */
#ifndef KVR_WORKLOAD_TURNED_H
#define KVR_WORKLOAD_TURNED_H

#include "harness/cache/cache.h"

struct kvr_turned {
    double *angles; /* of one place: cosines [D/2], then sines */
    float *x;       /* [n_tok,H,D] */
    size_t room;
};

/* turned->x becomes the view's keys, turned back by their places, or its values. KVR_ENOMEM. */
enum kvr_status kvr_turned_take(struct kvr_turned *turned, const struct kvr_cache_view *view,
                                enum kvr_side side);
void kvr_turned_free(struct kvr_turned *turned);

#endif
