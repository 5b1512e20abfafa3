/* bench_cudnn.h - cuDNN's attention as a reference for benchmarks, if the library is available.
 *
 *     struct kvr_bench_cudnn b;
 *     KVR_TRY(kvr_bench_cudnn_open(&b, dev, heads, d, n_query, q));
 *     KVR_TRY(kvr_bench_cudnn_keys(&b, n_key));              builds a kernel for n_key keys
 *     if (!b.why[0]) kvr_bench_cudnn_run(&b, k, v);          result in b.out
 *     kvr_bench_cudnn_close(&b);
 *
 * If cuDNN cannot be loaded or has no suitable kernel, kvr_bench_cudnn_open and
 * kvr_bench_cudnn_keys still return KVR_OK, and b.why gives the reason. In shapes, H is the number
 * of heads and D the number of channels per head. */
#ifndef KVR_BENCH_BENCH_CUDNN_H
#define KVR_BENCH_BENCH_CUDNN_H

#include "harness/device/cudnn.h"
#include "harness/device/mem.h"

struct kvr_bench_cudnn {
    struct kvr_dev *dev;
    struct kvr_cudnn *library;
    struct kvr_cudnn_plan *plan;
    struct kvr_cudnn_shape shape;
    struct kvr_buf q, out, work; /* `q` and `out` are BF16 [n_query,H,D], and `work` is cuDNN's
                                  * workspace */
    char why[512];               /* why cuDNN cannot be used ("": cuDNN is ready) */
};

/* Loads cuDNN and copies q [n_query,H,D] from host memory to the CUDA device as BF16. */
enum kvr_status kvr_bench_cudnn_open(struct kvr_bench_cudnn *b, struct kvr_dev *dev, int heads,
                                     int d, int64_t n_query, const float *q);
void kvr_bench_cudnn_close(struct kvr_bench_cudnn *b); /* accepts {0} */

enum kvr_status kvr_bench_cudnn_keys(struct kvr_bench_cudnn *b, int64_t n_key);

/* Computes attention of b->q over the keys k and values v, both BF16 [n_key,H,D] in device memory,
 * to b->out. The function must be called only if b->why is an empty string. */
enum kvr_status kvr_bench_cudnn_run(struct kvr_bench_cudnn *b, const void *k, const void *v);

/* Copies b->out, the output of the last kvr_bench_cudnn_run, to `out` [n_query,H,D] in host memory,
 * and synchronises with the device. */
enum kvr_status kvr_bench_cudnn_get(struct kvr_bench_cudnn *b, float *out);

#endif
