/* attend_impl.h - the backends' function table for attend.h. Private to harness/cache. */
#ifndef KVR_CACHE_ATTEND_IMPL_H
#define KVR_CACHE_ATTEND_IMPL_H

#include "harness/cache/attend.h"

/* Attention on one backend. */
struct kvr_attend_kind {
    struct kvr_attend_bytes (*bytes)(const struct kvr_attend_needs *n);
    /* `check` tests whether the backend supports the jobs (attention calls) within the bounds `n`;
     * NULL: supports all jobs. `fuses` tests whether the attention kernel can dequantize keys of
     * codec `k` and values of codec `v` and apply the correction `c`; NULL: it can for all codecs
     * and corrections. */
    enum kvr_status (*check)(const struct kvr_attend_needs *n);
    enum kvr_status (*fuses)(const struct kvr_dev *dev, const struct kvr_codec *k,
                             const struct kvr_codec *v, const struct kvr_correction *c, int n_heads,
                             int head_dim);
    /* Whether jobs within the bounds `n` may have BF16 queries. A backend without this function
     * supports F32 queries only. */
    bool (*bf16)(const struct kvr_attend_needs *n);
    void (*run)(const struct kvr_attend_job *job, struct kvr_attend_scratch *s);
    enum kvr_status (*columns)(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
    /* Called once when the scratch is allocated; NULL: nothing to do. */
    enum kvr_status (*prepare)(const struct kvr_attend_needs *n, struct kvr_attend_scratch *s);
};
extern const struct kvr_attend_kind kvr_attend_cpu, kvr_attend_cuda;

/* Returns the index in the rollout of token i of the span's segment. If the span has no segment, i
 * counts the tokens of the current chunk. */
static inline int64_t kvr_column_token(const struct kvr_column_job *job, const struct kvr_span *s,
                                       int64_t i)
{
    return s->seg ? kvr_segment_token(s->seg, i) : job->current0 + i;
}

/* Returns the index of head h within a segment, for kvr_codec_transform: 0 if each segment has one
 * head only. */
static inline int kvr_space_head(const struct kvr_attend_job *job, int h)
{
    return job->by_head ? 0 : h;
}

enum kvr_status kvr_columns_cpu(const struct kvr_column_job *job, struct kvr_attend_scratch *s);
enum kvr_status kvr_columns_cuda(const struct kvr_column_job *job, struct kvr_attend_scratch *s);

#endif
