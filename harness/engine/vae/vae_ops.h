/* vae_ops.h - the operations of the VAE's decoders and encoder other than convolutions, as one
 * function table per device and element type.
 *
 *     const struct kvr_vae_ops *ops = kvr_vae_ops_of(dev, KVR_F32);
 *     ops->norm(dev, n, channels, true, x, gamma, y);
 *
 * A void pointer points to elements of the table's type, F32 or BF16. BF16 operations compute in
 * F32 and round each result once. All pointers refer to memory of the device `dev`, the first
 * argument of each operation. On CUDA, calls are asynchronous, and kvr_dev_sync() returns their
 * errors. The functions allocate no memory. */
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
    /* Normalises each of the n pixels of x over its C channels. For one pixel, y = sqrt(C) gamma x
     * / max(||x||, 1e-12), with gains gamma [C] and the L2 norm ||x|| of the pixel. If `silu` is
     * true, SiLU is then applied to y. The arrays y and x may be the same. */
    void (*norm)(struct kvr_dev *dev, int64_t n, int channels, bool silu, const void *x,
                 const float *gamma, void *y);
    /* Adds y to x: x += y for n elements. */
    void (*add)(struct kvr_dev *dev, int64_t n, const void *y, void *x);
    /* Computes x = max(x + y, 0) for n elements, or x = max(x, 0) if y is NULL, where NaN stays
     * NaN. The function pointers `rectify`, `patch`, `halve` and `gather` are NULL in BF16
     * tables, because only F32 networks use them. */
    void (*rectify)(struct kvr_dev *dev, int64_t n, const float *y, float *x);
    /* Adds the shortcut connection around one resolution level of the decoder. The level's input
     * `from` [h, w, in] is upsampled to `times` frames [2h, 2w, out], and frame number `which` of
     * these is added to `to`. To upsample, the `in` channels are repeated to 4 * out * times
     * channels and rearranged as [out, times, 2, 2]. */
    void (*spread)(struct kvr_dev *dev, int h, int w, int in, int out, int times, int which,
                   const void *from, void *to);
    /* Converts the 12 values [3 channels, 2 columns, 2 rows] at each position of `from` [h, w, 12]
     * into 2 x 2 pixels of `to` [2h, 2w, 3]. */
    void (*unpatch)(struct kvr_dev *dev, int h, int w, const void *from, void *to);
    /* The inverse of `unpatch`: converts every 2 x 2 pixels of `from` [2h, 2w, 3] into 12 values of
     * `to` [h, w, 12]. */
    void (*patch)(struct kvr_dev *dev, int h, int w, const float *from, float *to);
    /* Copies the pixels (2i + 1, 2j + 1) of `from` [2h, 2w, channels] to `to` [h, w, channels].
     * A 3 x 3 convolution with stride 1 and zero padding on all sides, followed by `halve`, equals
     * the convolution with stride 2 and zero padding at the bottom and on the right only. */
    void (*halve)(struct kvr_dev *dev, int h, int w, int channels, const float *from, float *to);
    /* Adds the shortcut connection around one resolution level of the encoder, for a clip's first
     * frame. The level's input is `times` frames [2h, 2w, in]: times - 1 frames of zeros, then
     * the frame `from`. The input is rearranged to [h, w, in, times, 2, 2], so that frames and
     * 2 x 2 pixels become channels. The mean of each group of 4 * in * times / out adjacent
     * channels is added to `to` [h, w, out]. */
    void (*gather)(struct kvr_dev *dev, int h, int w, int in, int out, int times, const float *from,
                   float *to);
    /* Writes softmax(q k^T / sqrt(d)) v, for q, k and v in qkv [n, 3d], to out [n,d]. `out` must
     * have room for 3 n d elements, because the CUDA version stores q, k and v there first. The CPU
     * version uses `threads` threads; the CUDA version ignores `threads`. */
    enum kvr_status (*attend)(struct kvr_dev *dev, int threads, int64_t n, int d, const void *qkv,
                              float *scores, void *out);
    /* Returns the number of floats that the buffer `scores` of `attend` needs for n pixels of d
     * channels. */
    int64_t (*score_floats)(int threads, int64_t n, int d);
};
extern const struct kvr_vae_ops kvr_vae_ops_cpu, kvr_vae_ops_cuda;
extern const struct kvr_vae_ops kvr_vae_ops_cpu_bf16, kvr_vae_ops_cuda_bf16;
const struct kvr_vae_ops *kvr_vae_ops_of(const struct kvr_dev *dev, enum kvr_dtype type);

#ifdef __cplusplus
}
#endif
#endif
