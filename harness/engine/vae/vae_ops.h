/* vae_ops.h - the operations of decoders and encoder besides convolutions; one table per device and
 * element type.
 *
 *     const struct kvr_vae_ops *ops = kvr_vae_ops_of(dev, KVR_F32);
 *     ops->norm(dev, n, channels, true, x, gamma, y);
 *
 * void pointers are elements of the table's type, F32 or BF16. An operation on BF16 computes in F32
 * and rounds each result once. Every pointer is memory of `dev`. On CUDA the work is queued; what
 * goes wrong shows at kvr_dev_sync(). Nothing is allocated. */
#ifndef KVR_VAE_VAE_OPS_H
#define KVR_VAE_VAE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_vae_ops {
    /* y = x / max(|x|, 1e-12) sqrt(C) gamma over the C channels of each of n pixels, then perhaps
     * SiLU. x and y may be one. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                 const float *gamma, void *y);
    /* x += y of n numbers. */
    void (*add)(struct kvr_dev *dev, int64_t n, const void *y, void *x);
    /* x = max(x + y, 0) of n numbers, y NULL: max(x, 0). NaN stays NaN. This, `patch`, `halve` and
     * `gather` are of F32 alone, NULL in the tables of BF16. */
    void (*rectify)(struct kvr_dev *dev, int64_t n, const float *y, float *x);
    /* to [2h, 2w, out] += frame `which` of `times` that from [h, w, in] is spread over: its channels
     * repeated to out times 4 and laid out as [out, times, 2, 2]. */
    void (*spread)(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const void *from, void *to);
    /* to [2h, 2w, 3] <- from [h, w, 12] in order (channel, column, row). */
    void (*unpatch)(struct kvr_dev *dev, int h, int w, const void *from, void *to);
    /* The inverse: to [h, w, 12] <- from [2h, 2w, 3]. */
    void (*patch)(struct kvr_dev *dev, int h, int w, const float *from, float *to);
    /* to [h, w, channels] <- pixels (2i + 1, 2j + 1) of from [2h, 2w, channels]: a convolution of stride
     * 2 is one of stride 1 with the other pixels left out. */
    void (*halve)(struct kvr_dev *dev, int h, int w, int channels, const float *from, float *to);
    /* The reverse of `spread`, of a clip's first frame: to [h, w, out] += means over in times 4 / out
     * neighbours of the channels [in, times, 2, 2] of from [2h, 2w, in]. The frame is the last of
     * `times`; the others are zeros. */
    void (*gather)(struct kvr_dev *dev, int h, int w, int in, int out, int times, const float *from,
                   float *to);
    /* Of qkv [n, 3d]: softmax(q k^T / sqrt(d)) v into out [n,d], which has room for 3 n d. On the
     * host by so many threads. */
    enum kvr_status (*attend)(struct kvr_dev *dev, int threads, int64_t n, int d, const void *qkv,
                              float *scores, void *out);
    /* Floats of `scores` for n pixels of d channels and so many threads. */
    int64_t (*score_floats)(int threads, int64_t n, int d);
};
extern const struct kvr_vae_ops kvr_vae_ops_cpu, kvr_vae_ops_cuda;
extern const struct kvr_vae_ops kvr_vae_ops_cpu_bf16, kvr_vae_ops_cuda_bf16;
const struct kvr_vae_ops *kvr_vae_ops_of(const struct kvr_dev *dev, enum kvr_dtype type);

#ifdef __cplusplus
}
#endif
#endif
