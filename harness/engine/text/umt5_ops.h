/* umt5_ops.h - the text encoder's operations other than linear layers, as one function table per
 * device.
 *
 *     const struct kvr_umt5_ops *ops = kvr_umt5_ops_of(dev);
 *     ops->norm(dev, n, d, x, weight, y);
 *
 * All pointers refer to memory of `dev`. On CUDA, calls are asynchronous, and kvr_dev_sync()
 * returns their errors. NaN propagates. The functions allocate no memory. */
#ifndef KVR_TEXT_UMT5_OPS_H
#define KVR_TEXT_UMT5_OPS_H

#include <stdint.h>

#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_UMT5_MAX_HEAD_DIM = 256 }; /* max_head_dim of kvr_umt5_ops_cuda */

/* Attention of one text of n tokens. In each head, the score of query i and key j is the dot
 * product q[i] k[j] plus the bias of relative position j - i, bias[head][j - i + span - 1]. */
struct kvr_umt5_heads {
    const float *q, *k, *v; /* [n, H*D] */
    /* [H, 2 span - 1]: score biases of relative positions 1 - span to span - 1, with span >= n */
    const float *bias;
    float *scores; /* scratch for scores [threads, n] on the CPU; unused on CUDA */
    float *out;    /* result [n, H*D], which must not overlap an input */
    int n, n_heads, head_dim, span;
};

struct kvr_umt5_ops {
    /* RMSNorm of n rows: y = x / sqrt(mean(x^2) + 1e-6) * weight, with the mean over the d values
     * of a row. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int d, const float *x, const float *weight,
                 float *y);
    /* out = softmax(scores) v, where scores are not scaled by 1 / sqrt(D). */
    void (*attend)(struct kvr_dev *dev, const struct kvr_umt5_heads *a);
    void (*multiply)(struct kvr_dev *dev, int64_t n, const float *y, float *x); /* x *= y */

    int max_head_dim; /* largest head_dim that `attend` supports; 0: unlimited */
};
extern const struct kvr_umt5_ops kvr_umt5_ops_cpu, kvr_umt5_ops_cuda;
const struct kvr_umt5_ops *kvr_umt5_ops_of(const struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
