/* conv.h - convolutions over frames [height, width, channels]. On the CPU oneDNN computes strips of
 * rows; narrow F32 layers use F64 sums. On a GPU cuDNN or kvreel's own kernel computes them.
 *
 *     struct kvr_conv_shape s = { .in = 96, .out = 96, .taps = 3, .kernel = 3, ... };
 *     KVR_TRY(kvr_conv_context_open(&context, dev, KVR_F32));
 *     KVR_TRY(kvr_conv_open(&c, context, &s, weight, bias));
 *     KVR_TRY(kvr_conv_run(c, frames, y));
 *     kvr_conv_close(&c);
 *     kvr_conv_context_close(&context);                        after its convolutions
 *
 * A convolution reads `taps` consecutive frames: a causal one gets the newest and its predecessors,
 * NULL before the start of the clip. Zero padding in space preserves the size. With `up` 2 the
 * input is first upsampled by 2 in both directions (nearest neighbour).
 *
 * Frames and y have the context's type. In BF16, weights and bias are rounded as well; accumulation is
 * F32, and each result is rounded once.
 *
 * Frames and y are memory of the context's device; on CUDA calls are asynchronous. On the CPU the size
 * of strips does not depend on the number of threads, and one thread computes each strip with a
 * single-threaded primitive, so y does not depend on it either. */
#ifndef KVR_VAE_CONV_H
#define KVR_VAE_CONV_H

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

struct kvr_conv_shape {
    int in, out, taps, kernel; /* in, out: channels per frame; taps: 1, 2 or 3; kernel: width and
                                * height, 1 or 3 */
    int height, width;         /* size of the output in pixels */
    int up;                    /* 1 or 2 */
};

/* An input frame: pixel (i, j) is at p + (i width + j) stride. */
struct kvr_conv_frame {
    const void *p; /* NULL: all zeros */
    int stride;    /* elements between pixels, >= in */
};

/* Copies frames [taps] into f [3], initially zero, as arguments of a CUDA kernel. Returns the index
 * of the first frame that is not NULL, or `taps` if all are. */
static inline int kvr_conv_frames_copy(const struct kvr_conv_shape *s,
                                       const struct kvr_conv_frame *frames,
                                       struct kvr_conv_frame *f)
{
    int first = 0;

    for (int t = 0; t < s->taps; t++)
        f[t] = frames[t];
    while (first < s->taps && !f[first].p)
        first++;
    return first;
}

struct kvr_conv_context; /* shared by convolutions: the library's engine, each thread's strips */
struct kvr_conv;

/* type: KVR_F32 or KVR_BF16 */
enum kvr_status kvr_conv_context_open(struct kvr_conv_context **out, struct kvr_dev *dev,
                                      enum kvr_dtype type);
void kvr_conv_context_close(struct kvr_conv_context **r);
/* Implementation of the convolutions opened so far: "oneDNN 2.6", "cuDNN 9.10, BF16", "kvreel
 * (...why not cuDNN)". Owned by the context, valid until the next call. */
const char *kvr_conv_context_library(struct kvr_conv_context *r);

/* weight [out, in, taps, kernel, kernel], bias [out] in host memory; both may be freed
 * afterwards. */
enum kvr_status kvr_conv_open(struct kvr_conv **out, struct kvr_conv_context *context,
                              const struct kvr_conv_shape *s, const float *weight,
                              const float *bias);
void kvr_conv_close(struct kvr_conv **c);

/* frames [taps], oldest first; y [height, width, out]. */
enum kvr_status kvr_conv_run(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y);

#endif
