/* bench_cudnn.h - cuDNN's attention as a benchmark's reference, where the library is.
 *
 *     struct kvr_bench_cudnn b;
 *     KVR_TRY(kvr_bench_cudnn_open(&b, dev, heads, d, n_query, q));
 *     KVR_TRY(kvr_bench_cudnn_keys(&b, n_key));              builds its kernel for so many keys
 *     if (!b.why[0]) kvr_bench_cudnn_run(&b, k, v);          b.out
 *     kvr_bench_cudnn_close(&b);
 *
 * That there is no library, or no kernel, is no error: `why` says it. */
#ifndef KVR_BENCH_BENCH_CUDNN_H
#define KVR_BENCH_BENCH_CUDNN_H

#include "harness/device/cudnn.h"
#include "harness/device/mem.h"

struct kvr_bench_cudnn {
    struct kvr_dev *dev;
    struct kvr_cudnn *library;
    struct kvr_cudnn_plan *plan;
    struct kvr_cudnn_shape shape;
    struct kvr_buf q, out, work; /* BF16 [n_query,H,D] both; the kernel's own */
    char why[128];               /* it cannot be a reference; "": it can */
};

/* On a device of backend CUDA. q [n_query,H,D] in the host's memory. */
enum kvr_status kvr_bench_cudnn_open(struct kvr_bench_cudnn *b, struct kvr_dev *dev, int heads,
                                     int d, int64_t n_query, const float *q);
void kvr_bench_cudnn_close(struct kvr_bench_cudnn *b); /* copes with {0} */

enum kvr_status kvr_bench_cudnn_keys(struct kvr_bench_cudnn *b, int64_t n_key);

/* k, v BF16 [n_key,H,D] on the device. Only where there is no `why`. */
enum kvr_status kvr_bench_cudnn_run(struct kvr_bench_cudnn *b, const void *k, const void *v);

/* out [n_query,H,D] in the host's memory: what the last run gave. Waits. */
enum kvr_status kvr_bench_cudnn_get(struct kvr_bench_cudnn *b, float *out);

#endif
