/* attend_impl.h - what attend.h is made of. Private to harness/cache. */
#ifndef KVR_CACHE_ATTEND_IMPL_H
#define KVR_CACHE_ATTEND_IMPL_H

#include "harness/cache/attend.h"

/* Attention on one backend. */
struct kvr_attend_kind {
    struct kvr_attend_bytes (*bytes)(const struct kvr_attend_needs *n);
    /* NULL: it does all that may be asked, and decodes every codec inside its loop. */
    enum kvr_status (*check)(const struct kvr_attend_needs *n);
    enum kvr_status (*fuses)(const struct kvr_codec *k, const struct kvr_codec *v, int n_heads,
                             int head_dim);
    void (*run)(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);
};
extern const struct kvr_attend_kind kvr_attend_cpu, kvr_attend_cuda;

#endif
