/* attend_impl.h - the backends' function table for attend.h. Private to harness/cache. */
#ifndef KVR_CACHE_ATTEND_IMPL_H
#define KVR_CACHE_ATTEND_IMPL_H

#include "harness/cache/attend.h"

/* Function table of one backend. */
struct kvr_attend_kind {
    struct kvr_attend_bytes (*bytes)(const struct kvr_attend_needs *n);
    /* `check` tests whether the backend supports all jobs (attention calls) that have at most the
     * sizes in `n` and use only the features in `n`. NULL means that the backend supports every
     * job. `fuses` tests whether the attention kernel can dequantize keys of codec `k` and values
     * of codec `v` and apply the correction `c`. NULL means that the kernel supports all codecs and
     * corrections. */
    enum kvr_status (*check)(const struct kvr_attend_needs *n);
    enum kvr_status (*fuses)(const struct kvr_dev *dev, const struct kvr_codec *k,
                             const struct kvr_codec *v, const struct kvr_correction *c, int n_heads,
                             int head_dim);
    /* Whether the attention calls with the properties `n` may have BF16 queries. A backend without
     * this function supports F32 queries only. */
    bool (*bf16)(const struct kvr_attend_needs *n);
    void (*run)(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);
    enum kvr_status (*columns)(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
    /* Allocates or checks what the backend needs beyond the buffers whose sizes bytes() returns.
     * kvr_attend_reserve calls the function once. NULL means that the backend needs nothing
     * more. */
    enum kvr_status (*prepare)(const struct kvr_attend_needs *n, struct kvr_attend_scratch *s);
};
extern const struct kvr_attend_kind kvr_attend_cpu, kvr_attend_cuda;

/* Returns the position of a token in the rollout. The span `s` is a run of tokens that attention
 * reads in one format: all tokens of the segment s->seg or, if s->seg is NULL, of the current
 * chunk. `i` is the token's index in the span. */
static inline int64_t kvr_column_token(const struct kvr_column_job *job, const struct kvr_span *s,
                                       int64_t i)
{
    return s->seg ? kvr_segment_token(s->seg, i) : job->current0 + i;
}

/* Returns the head index to pass to kvr_codec_transform for head h of the cache. The index is 0 if
 * each segment stores only one head, because it counts from the segment's first head. */
static inline int kvr_space_head(const struct kvr_attend_job *job, int h)
{
    return job->by_head ? 0 : h;
}

enum kvr_status kvr_columns_cpu(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
enum kvr_status kvr_columns_cuda(const struct kvr_column_job *job, struct kvr_attend_scratch *s);

#endif
