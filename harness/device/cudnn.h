/* cudnn.h - computes attention by NVIDIA's cuDNN, loaded at run time, as a reference for
 * benchmarks.
 *
 *     KVR_TRY(kvr_cudnn_open(&c, s));                          KVR_EUNSUPPORTED with the reason
 *     KVR_TRY(kvr_cudnn_plan_open(&p, c, &shape));             the library builds a kernel: seconds
 *     KVR_TRY(kvr_device_alloc(s, &work, kvr_cudnn_plan_bytes(p)));
 *     KVR_TRY(kvr_cudnn_attend(c, p, q, k, v, out, work));
 *     kvr_cudnn_plan_close(c, &p);
 *     kvr_cudnn_close(&c);
 *
 *     out(q) = sum_j softmax_j(q . k_j / sqrt(d)) v_j
 *
 * The tensors q, k, v and out are BF16. cuDNN accumulates and computes softmax in F32, and rounds
 * the softmax weights to BF16 before it multiplies them with v. kvr_cudnn_open loads cuDNN with
 * kvr_cudnn_load() (cudnn_load.h), and refuses versions older than 9.0. */
#ifndef KVR_DEVICE_CUDNN_H
#define KVR_DEVICE_CUDNN_H

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_cudnn;
struct kvr_cudnn_plan;

struct kvr_cudnn_shape {
    int64_t n_query, n_key;
    int heads, d;
};

enum kvr_status kvr_cudnn_open(struct kvr_cudnn **out, struct kvr_stream *s);
void kvr_cudnn_close(struct kvr_cudnn **c); /* *c may be NULL; all plans of *c must be closed
                                             * first */

/* Builds cuDNN's execution plan for attention of this shape. Returns KVR_EUNSUPPORTED with the
 * library's message if cuDNN has no kernel for the shape. */
enum kvr_status kvr_cudnn_plan_open(struct kvr_cudnn_plan **out, struct kvr_cudnn *c,
                                    const struct kvr_cudnn_shape *shape);
void kvr_cudnn_plan_close(struct kvr_cudnn *c, struct kvr_cudnn_plan **p); /* accepts NULL */
/* Size of the workspace that kvr_cudnn_attend needs, in bytes; may be 0. */
size_t kvr_cudnn_plan_bytes(const struct kvr_cudnn_plan *p);

/* Computes attention in stream order. The tensors q and out [n_query,heads,d] and k and v
 * [n_key,heads,d] are BF16 in device memory, 16-byte aligned. The function must not be called
 * during graph capture. */
enum kvr_status kvr_cudnn_attend(struct kvr_cudnn *c, const struct kvr_cudnn_plan *p, const void *q,
                                 const void *k, const void *v, void *out, void *workspace);

#ifdef __cplusplus
}
#endif
#endif
