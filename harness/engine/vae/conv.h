/* conv.h - convolutions over frames [height, width, channels]. On the CPU, oneDNN computes the
 * convolution in strips of rows. F32 layers with few channels are instead computed by a loop with
 * F64 sums. On a GPU, cuDNN or kvreel's own kernel computes the convolution.
 *
 *     struct kvr_conv_shape s = { .in = 96, .out = 96, .taps = 3, .kernel = 3, ... };
 *     KVR_TRY(kvr_conv_context_open(&context, dev, KVR_F32));
 *     KVR_TRY(kvr_conv_open(&c, context, &s, weight, bias));
 *     KVR_TRY(kvr_conv_run(c, frames, y));
 *     kvr_conv_close(&c);
 *     kvr_conv_context_close(&context);                        after its convolutions
 *
 * A convolution reads `taps` consecutive frames. A causal convolution reads the newest frame and
 * its predecessors; frames before the start of the clip are passed as NULL and treated as zeros.
 * Zero padding preserves height and width. If `up` is 2, height and width of the input are first
 * doubled by nearest-neighbour upsampling.
 *
 * The input frames and the output frame y have the element type of the context. In a BF16 context,
 * weights and bias are rounded to BF16 too; accumulation is F32, and each result is rounded once.
 *
 * The input frames and y are in the memory of the device `dev` of the context. On CUDA, calls are
 * asynchronous. On the CPU, the strip size does not depend on the number of threads, and a
 * single-threaded oneDNN primitive computes each strip. The result y therefore does not depend on
 * the number of threads. */
#ifndef KVR_VAE_CONV_H
#define KVR_VAE_CONV_H

#include "harness/core/dtype.h"
#include "harness/device/mem.h"

struct kvr_conv_shape {
    int in, out, taps, kernel; /* in, out: numbers of channels; taps: temporal kernel size, 1 to 3;
                                * kernel: spatial kernel size, 1 or 3 */
    int height, width;         /* size of the output frame in pixels */
    int up;                    /* 1 or 2 */
};

/* An input frame, whose pixel (i, j) starts at element (i * width + j) * stride of p. */
struct kvr_conv_frame {
    const void *p; /* NULL: all zeros */
    int stride;    /* elements between the starts of adjacent pixels, at least `in` */
};

/* Copies frames [taps] to the zero-initialized array f [3], which is then passed to a CUDA kernel.
 * Returns the index of the first frame with data (p is not NULL), or `taps` if none has data. */
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

struct kvr_conv_context; /* state shared by convolutions, such as the cuDNN handle, or the scratch
                          * memory of each CPU thread */
struct kvr_conv;

/* type: KVR_F32 or KVR_BF16 */
enum kvr_status kvr_conv_context_open(struct kvr_conv_context **out, struct kvr_dev *dev,
                                      enum kvr_dtype type);
void kvr_conv_context_close(struct kvr_conv_context **r);
/* Names the library that computes the convolutions opened so far, for example "oneDNN 2.6" on a CPU
 * or "cuDNN 9.10, BF16" on a GPU. On a GPU without cuDNN, the name is "kvreel" or "kvreel, BF16",
 * followed by the reason in parentheses. If kvreel's kernels compute some of the convolutions,
 * their number and the reason follow cuDNN's name. The string belongs to the context and is valid
 * until the next call. */
const char *kvr_conv_context_library(struct kvr_conv_context *r);

/* Opens a convolution with weight [out, in, taps, kernel, kernel] and bias [out] in host memory,
 * which the caller may free afterwards. */
enum kvr_status kvr_conv_open(struct kvr_conv **out, struct kvr_conv_context *context,
                              const struct kvr_conv_shape *s, const float *weight,
                              const float *bias);
void kvr_conv_close(struct kvr_conv **c);

/* Convolves the input frames [taps], oldest first, and writes y [height, width, out]. */
enum kvr_status kvr_conv_run(struct kvr_conv *c, const struct kvr_conv_frame *frames, void *y);

#endif
