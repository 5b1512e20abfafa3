/* umt5_ops.h - operations of the text encoder other than linear layers; one table per device.
 *
 *     const struct kvr_umt5_ops *ops = kvr_umt5_ops_of(dev);
 *     ops->norm(dev, n, d, x, weight, y);
 *
 * All pointers are memory of `dev`. On CUDA calls are asynchronous; kvr_dev_sync() returns errors.
 * NaN propagates. Nothing is allocated. */
#ifndef KVR_TEXT_UMT5_OPS_H
#define KVR_TEXT_UMT5_OPS_H

#include <stdint.h>

#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_UMT5_MAX_HEAD_DIM = 256 }; /* limit of CUDA's table */

/* Attention of one text. The score of query i, key j and a head is q k + bias[head][j - i + span -
 * 1]. */
struct kvr_umt5_heads {
    const float *q, *k, *v; /* [n, H*D] */
    const float *bias;      /* [H, 2 span - 1], span >= n */
    float *scores;          /* scratch [threads, n] on the CPU; unused elsewhere */
    float *out;             /* [n, H*D]; aliases no input */
    int n, n_heads, head_dim, span;
};

struct kvr_umt5_ops {
    /* y = x / sqrt(mean(x^2) + 1e-6) * weight, over rows of d. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int d, const float *x, const float *weight,
                 float *y);
    /* out = softmax(scores) v, without a scale. */
    void (*attend)(struct kvr_dev *dev, const struct kvr_umt5_heads *a);
    void (*multiply)(struct kvr_dev *dev, int64_t n, const float *y, float *x); /* x *= y */

    int max_head_dim; /* largest head_dim of attend; 0: unlimited */
};
extern const struct kvr_umt5_ops kvr_umt5_ops_cpu, kvr_umt5_ops_cuda;
const struct kvr_umt5_ops *kvr_umt5_ops_of(const struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
