/* conv_cudnn.h - convolutions of one frame by NVIDIA's cuDNN.
 *
 *     KVR_TRY(kvr_conv_cudnn_open(&lib, stream));               KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_conv_cudnn_plan_open(&p, lib, &shape, 64 << 20));
 *     for (i = 0; i < kvr_conv_cudnn_ways(p); i++) ...          algorithms, best estimate first
 *     KVR_TRY(kvr_conv_cudnn_run(p, i, x, w, y, workspace));    y += w * x
 *     kvr_conv_cudnn_plan_close(&p);
 *     kvr_conv_cudnn_close(&lib);                               after its plans
 *
 * F32 without TF32, or BF16 with F32 accumulation (PSEUDO_BFLOAT16_CONFIG), by deterministic
 * algorithms only. Uses cuDNN's legacy interface, cudnnConvolutionForward, with its own
 * declarations, so that the build needs no cuDNN headers. */
#ifndef KVR_VAE_CONV_CUDNN_H
#define KVR_VAE_CONV_CUDNN_H

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

struct kvr_conv_cudnn;
struct kvr_conv_cudnn_plan;

/* x [rows_in, width, in], w [out, kernel, kernel, in], y [rows_out, width, out]. Padding is zero:
 * on all sides if rows_in = rows_out, on the left and right only if x includes the rows above and
 * below. */
struct kvr_conv_cudnn_shape {
    enum kvr_dtype type; /* of x, w and y: KVR_F32 or KVR_BF16 */
    int in, out, kernel; /* kernel: 1 or 3 */
    int rows_in, rows_out, width;
};

/* "cuDNN 9.10" into words[n]. */
enum kvr_status kvr_conv_cudnn_open(struct kvr_conv_cudnn **out, struct kvr_stream *s, char *words,
                                    size_t n);
void kvr_conv_cudnn_close(struct kvr_conv_cudnn **lib); /* accepts NULL */

/* KVR_EUNSUPPORTED: no algorithm for this shape within the workspace limit. */
enum kvr_status kvr_conv_cudnn_plan_open(struct kvr_conv_cudnn_plan **out,
                                         struct kvr_conv_cudnn *lib,
                                         const struct kvr_conv_cudnn_shape *shape,
                                         size_t most_bytes);
void kvr_conv_cudnn_plan_close(struct kvr_conv_cudnn_plan **p); /* accepts NULL */
/* Number of algorithms, and the workspace of each, which may be 0. */
int kvr_conv_cudnn_ways(const struct kvr_conv_cudnn_plan *p);
size_t kvr_conv_cudnn_bytes(const struct kvr_conv_cudnn_plan *p, int way);

/* In stream order; all pointers are device memory. */
enum kvr_status kvr_conv_cudnn_run(const struct kvr_conv_cudnn_plan *p, int way, const void *x,
                                   const void *w, void *y, void *workspace);

#endif
