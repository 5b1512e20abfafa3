/* part.h - common code of element-wise codec stages: the range to decode, the decode mode, and the
 * calls of their CUDA functions.
 *
 * In the listing below, `name` stands for a stage's name, such as `ternary`. The struct `name`
 * describes the format of an encoded block. The function name_of(job) computes this struct from the
 * stage's options and the block's shape.
 *
 *     name.h           KVR_ENCODE_LAUNCHER(name);      declares kvr_name_encode_cuda()
 *                      KVR_DECODE_LAUNCHER(name);      declares kvr_name_decode_cuda()
 *     name_cuda.cu     defines them
 *     name.c           KVR_CODED_CUDA(name)            the functions that call them: `cuda`
 *                      const struct kvr_stage kvr_stage_name = {
 *                          KVR_CODED_STAGE(name),      of options, layout, encode, decode, `cuda`
 *                          .title = "...", .check = check, .noise = kvr_noise_measured,
 *                      };
 *
 * If a stage encodes on the host and decodes on the device, its name.c uses KVR_READ_CUDA(name)
 * instead of KVR_CODED_CUDA(name). */
#ifndef KVR_METHODS_PART_H
#define KVR_METHODS_PART_H

#include "harness/device/stream.h"
#include "methods/codec.h"

/* Range to decode: tokens [t0, t0 + n), and channels [first, first + width) of the H*D channels of
 * a token. `mode` is an enum kvr_decode_mode. */
struct kvr_part {
    int64_t t0, n, first, width;
    int mode;
};

#ifdef __cplusplus
#include "harness/device/number.cuh"

#define KVR_LAUNCHER extern "C" void

/* Assigns v to out[i], or adds or subtracts v, according to the decode mode (device code). */
template <class P>
static __device__ __forceinline__ void kvr_part_put(int mode, P out, int64_t i, float v)
{
    out[i] = mode == KVR_DECODE_SET   ? v
             : mode == KVR_DECODE_ADD ? (float)out[i] + v
                                      : (float)out[i] - v;
}
#else
#include "methods/bounce.h"

#define KVR_LAUNCHER void

/* Assigns v to out[i], or adds or subtracts v, according to the decode mode (host code). */
static inline void kvr_part_put(int mode, float *out, int64_t i, float v)
{
    out[i] = mode == KVR_DECODE_SET ? v : mode == KVR_DECODE_ADD ? out[i] + v : out[i] - v;
}
#endif

/* Declares a function that encodes x [T,H,D] to codes and side information in the stage's format.
 * All pointers are device memory. The function neither allocates nor synchronises; a device error
 * is reported at kvr_stream_sync(). */
#define KVR_ENCODE_LAUNCHER(name)                                                                  \
    KVR_LAUNCHER kvr_##name##_encode_cuda(struct kvr_stream *s, const struct name *g,              \
                                          const float *x, void *codes, void *params)
/* Declares a function that decodes a range to out [n,width]. All pointers are device memory, and
 * the function neither allocates nor synchronises. */
#define KVR_DECODE_LAUNCHER(name)                                                                  \
    KVR_LAUNCHER kvr_##name##_decode_cuda(struct kvr_stream *s, const struct name *g,              \
                                          const void *codes, const void *params,                   \
                                          const struct kvr_part *part, float *out)

#define KVR_ENCODE_CUDA(name)                                                                      \
    static enum kvr_status encode_cuda(const struct kvr_stage_job *job, float *x,                  \
                                       struct kvr_stage_data *out)                                 \
    {                                                                                              \
        const struct name g = name##_of(job);                                                      \
                                                                                                   \
        kvr_##name##_encode_cuda(kvr_dev_stream(job->dev), &g, x, out->codes.p, out->meta.p);      \
        return KVR_OK;                                                                             \
    }

#define KVR_DECODE_CUDA(name)                                                                      \
    static void decode_cuda(const struct kvr_stage_job *job, const struct kvr_stage_data *in,      \
                            int64_t t0, int64_t n, int h0, int nh, enum kvr_decode_mode mode,      \
                            float *out)                                                            \
    {                                                                                              \
        const struct name g = name##_of(job);                                                      \
        const int64_t d = job->shape.head_dim;                                                     \
        const struct kvr_part part = { t0, n, h0 * d, nh * d, mode };                              \
                                                                                                   \
        kvr_##name##_decode_cuda(kvr_dev_stream(job->dev), &g, in->codes.p, in->meta.p, &part,     \
                                 out);                                                             \
    }

#define KVR_CODED_CUDA(name)                                                                       \
    KVR_ENCODE_CUDA(name)                                                                          \
    KVR_DECODE_CUDA(name)                                                                          \
    static const struct kvr_stage_ops cuda = { .encode = encode_cuda, .decode = decode_cuda };

#define KVR_READ_CUDA(name)                                                                        \
    KVR_DECODE_CUDA(name)                                                                          \
    static const struct kvr_stage_ops cuda = { .encode = kvr_bounce_encode, .decode = decode_cuda };

#define KVR_CODED_STAGE(stage)                                                                     \
    .name = #stage, .kind = KVR_STAGE_GRID, .options = options,                                    \
    .opts_size = sizeof(struct stage##_opts), .deterministic = true, .layout = layout,             \
    .cpu = { .encode = encode, .decode = decode }, .cuda = &cuda

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the noise model KVR_NOISE_MEASURED, for a stage whose error follows no formula. */
void kvr_noise_measured(const struct kvr_stage_job *job, const struct kvr_stage_data *in,
                        struct kvr_coding_noise *out);

#ifdef __cplusplus
}
#endif
#endif
