/* umt5_ops.h - what the text encoder does besides linear layers; one table per device.
 *
 *     const struct kvr_umt5_ops *ops = kvr_umt5_ops_of(dev);
 *     ops->norm(dev, n, d, x, weight, y);
 *
 * Every pointer is memory of `dev`. On CUDA the work is queued; what goes wrong shows at
 * kvr_dev_sync(). NaN in, NaN out. Nothing is allocated. */
#ifndef KVR_TEXT_UMT5_OPS_H
#define KVR_TEXT_UMT5_OPS_H

#include <stdint.h>

#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVR_UMT5_MAX_HEAD_DIM = 256 }; /* of CUDA's table */

/* One text's attention. Of query i, key j and a head: q k + bias[head][j - i + span - 1]. */
struct kvr_umt5_heads {
    const float *q, *k, *v; /* [n, H*D] */
    const float *bias;      /* [H, 2 span - 1], span >= n */
    float *scores;          /* [threads, n] on the CPU; not read elsewhere */
    float *out;             /* [n, H*D]; none of the others */
    int n, n_heads, head_dim, span;
};

struct kvr_umt5_ops {
    /* y = x / sqrt(mean x^2 + 1e-6) * weight, of rows of d. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int d, const float *x, const float *weight,
                 float *y);
    /* out = softmax(scores) v, no scale. */
    void (*attend)(struct kvr_dev *dev, const struct kvr_umt5_heads *a);
    void (*multiply)(struct kvr_dev *dev, int64_t n, const float *y, float *x); /* x *= y */

    int max_head_dim; /* that attend takes; 0: any */
};
extern const struct kvr_umt5_ops kvr_umt5_ops_cpu, kvr_umt5_ops_cuda;
const struct kvr_umt5_ops *kvr_umt5_ops_of(const struct kvr_dev *dev);

#ifdef __cplusplus
}
#endif
#endif
