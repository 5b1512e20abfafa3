/* conv_cudnn.h - 2D convolutions of one frame by NVIDIA's cuDNN.
 *
 *     KVR_TRY(kvr_conv_cudnn_open(&lib, stream));               KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_conv_cudnn_plan_open(&p, lib, &shape, 64 << 20));
 *     for (i = 0; i < kvr_conv_cudnn_ways(p); i++) ...          algorithms, best estimate first
 *     KVR_TRY(kvr_conv_cudnn_run(p, i, x, w, y, workspace));    y += w * x
 *     kvr_conv_cudnn_plan_close(&p);
 *     kvr_conv_cudnn_close(&lib);                               after its plans
 *
 * Convolutions are F32 without TF32, or BF16 with F32 accumulation (PSEUDO_BFLOAT16_CONFIG), and
 * use deterministic algorithms only. The code calls cuDNN's legacy function cudnnConvolutionForward
 * and declares it itself, so that the build needs no cuDNN headers. */
#ifndef KVR_VAE_CONV_CUDNN_H
#define KVR_VAE_CONV_CUDNN_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

struct kvr_conv_cudnn;
struct kvr_conv_cudnn_plan;

/* Shape of a convolution of x [rows_in, width, in] with w [out, kernel, kernel, in] into y
 * [rows_out, width, out]. The convolution pads x with (kernel - 1) / 2 zeros on all sides if
 * rows_in = rows_out. If rows_in = rows_out + kernel - 1, x includes the (kernel - 1) / 2 rows
 * above and below the output rows, and is padded on the left and right only. */
struct kvr_conv_cudnn_shape {
    enum kvr_dtype type; /* type of x, w and y, KVR_F32 or KVR_BF16 */
    int in, out, kernel; /* kernel: 1 or 3 */
    int rows_in, rows_out, width;
};

/* Loads cuDNN, and writes its name and version, such as "cuDNN 9.10", to `words`, a buffer of n
 * bytes. */
enum kvr_status kvr_conv_cudnn_open(struct kvr_conv_cudnn **out, struct kvr_stream *s, char *words,
                                    size_t n);
void kvr_conv_cudnn_close(struct kvr_conv_cudnn **lib); /* accepts NULL */

/* Opens a plan, which lists cuDNN's deterministic algorithms for a convolution of `shape`, in order
 * of increasing time by cuDNN's estimate. Algorithms that need more than `most_bytes` bytes of
 * workspace are omitted. Returns KVR_EUNSUPPORTED if no algorithm is left. */
enum kvr_status kvr_conv_cudnn_plan_open(struct kvr_conv_cudnn_plan **out,
                                         struct kvr_conv_cudnn *lib,
                                         const struct kvr_conv_cudnn_shape *shape,
                                         size_t most_bytes);
void kvr_conv_cudnn_plan_close(struct kvr_conv_cudnn_plan **p); /* accepts NULL */
/* Returns the number of algorithms in the plan. The argument `way` of the functions below is an
 * algorithm's index in the plan. */
int kvr_conv_cudnn_ways(const struct kvr_conv_cudnn_plan *p);
/* Returns the workspace size of algorithm `way` in bytes, which may be 0. */
size_t kvr_conv_cudnn_bytes(const struct kvr_conv_cudnn_plan *p, int way);

/* Launches algorithm `way`, which adds the convolution of x with w to y, on the stream. All
 * pointers are device pointers. */
enum kvr_status kvr_conv_cudnn_run(const struct kvr_conv_cudnn_plan *p, int way, const void *x,
                                   const void *w, void *y, void *workspace);

#endif
