/* vae_ops.h - operations of decoders and encoder other than convolutions; one table per device and
 * element type.
 *
 *     const struct kvr_vae_ops *ops = kvr_vae_ops_of(dev, KVR_F32);
 *     ops->norm(dev, n, channels, true, x, gamma, y);
 *
 * void pointers are elements of the table's type, F32 or BF16. BF16 operations compute in F32 and
 * round each result once. All pointers are memory of `dev`. On CUDA calls are asynchronous;
 * kvr_dev_sync() returns errors. Nothing is allocated. */
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
    /* y = x / max(|x|, 1e-12) sqrt(C) gamma, over the C channels of each of n pixels, followed by
     * SiLU if `silu`. y may be x. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                 const float *gamma, void *y);
    /* x += y, n elements. */
    void (*add)(struct kvr_dev *dev, int64_t n, const void *y, void *x);
    /* x = max(x + y, 0), n elements; y NULL: max(x, 0). NaN stays NaN. rectify, patch, halve and
     * gather are F32 only: NULL in BF16 tables. */
    void (*rectify)(struct kvr_dev *dev, int64_t n, const float *y, float *x);
    /* to [2h, 2w, out] += frame `which` of the `times` frames that from [h, w, in] expands to:
     * channels are repeated to 4 out times and rearranged as [out, times, 2, 2]. */
    void (*spread)(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const void *from, void *to);
    /* to [2h, 2w, 3] <- from [h, w, 12] in order (channel, column, row). */
    void (*unpatch)(struct kvr_dev *dev, int h, int w, const void *from, void *to);
    /* The inverse of unpatch: to [h, w, 12] <- from [2h, 2w, 3]. */
    void (*patch)(struct kvr_dev *dev, int h, int w, const float *from, float *to);
    /* Keeps pixels (2i + 1, 2j + 1) of from [2h, 2w, channels]: computes a convolution of stride 2
     * from one of stride 1. */
    void (*halve)(struct kvr_dev *dev, int h, int w, int channels, const float *from, float *to);
    /* Transpose of `spread`, for a clip's first frame: to [h, w, out] += means over 4 in times /
     * out adjacent channels of [in, times, 2, 2] of from [2h, 2w, in]. `from` is the last of the
     * `times` frames; the others are zero. */
    void (*gather)(struct kvr_dev *dev, int h, int w, int in, int out, int times, const float *from,
                   float *to);
    /* softmax(q k^T / sqrt(d)) v of qkv [n, 3d] into out [n,d], a buffer of 3 n d elements. The CPU
     * uses `threads` threads. */
    enum kvr_status (*attend)(struct kvr_dev *dev, int threads, int64_t n, int d, const void *qkv,
                              float *scores, void *out);
    /* Floats needed for `scores`, for n pixels of d channels and this many threads. */
    int64_t (*score_floats)(int threads, int64_t n, int d);
};
extern const struct kvr_vae_ops kvr_vae_ops_cpu, kvr_vae_ops_cuda;
extern const struct kvr_vae_ops kvr_vae_ops_cpu_bf16, kvr_vae_ops_cuda_bf16;
const struct kvr_vae_ops *kvr_vae_ops_of(const struct kvr_dev *dev, enum kvr_dtype type);

#ifdef __cplusplus
}
#endif
#endif
