/* cudnn.h - attention by NVIDIA's cuDNN, found when the program runs: what benchmarks stand beside.
 *
 *     KVR_TRY(kvr_cudnn_open(&c, s));                          KVR_EUNSUPPORTED: why not
 *     KVR_TRY(kvr_cudnn_plan_open(&p, c, &shape));             the library builds a kernel: seconds
 *     KVR_TRY(kvr_device_alloc(s, &work, kvr_cudnn_plan_bytes(p)));
 *     KVR_TRY(kvr_cudnn_attend(c, p, q, k, v, out, work));
 *     kvr_cudnn_plan_close(c, &p);
 *     kvr_cudnn_close(&c);
 *
 *     out(q) = sum_j softmax_j(q . k_j / sqrt(D)) v_j
 *
 * of BF16 numbers, with products summed and the softmax taken in F32, weights rounded to BF16. Which
 * library that is says cudnn_load.h; it takes version 9. */
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
void kvr_cudnn_close(struct kvr_cudnn **c); /* copes with NULL; after its plans */

/* KVR_EUNSUPPORTED, in the library's words: it has no kernel for this shape, or cannot build one. */
enum kvr_status kvr_cudnn_plan_open(struct kvr_cudnn_plan **out, struct kvr_cudnn *c,
                                    const struct kvr_cudnn_shape *shape);
void kvr_cudnn_plan_close(struct kvr_cudnn *c, struct kvr_cudnn_plan **p); /* copes with NULL */
/* The workspace that kvr_cudnn_attend takes; may be 0. */
size_t kvr_cudnn_plan_bytes(const struct kvr_cudnn_plan *p);

/* In stream order. q, out [n_query,H,D] and k, v [n_key,H,D] are BF16 on the device, aligned to 16
 * bytes. The library may not be used while a graph is captured. */
enum kvr_status kvr_cudnn_attend(struct kvr_cudnn *c, const struct kvr_cudnn_plan *p, const void *q,
                                 const void *k, const void *v, void *out, void *workspace);

#ifdef __cplusplus
}
#endif
#endif
