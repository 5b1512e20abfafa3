/* products_bf16.h - oneDNN's BF16 matrix products Q K^T and S V, a reference for attention
 * benchmarks.
 *
 *     KVR_TRY(kvr_bf16_products_open(&p, m, n, d, ld, n_threads));
 *     status = kvr_bf16_products_run(p, thread, q, k, v, s, out);      s [m,n]; dnnl_status_t
 *     kvr_bf16_products_close(&p);
 *
 * The two products are those of attention without softmax: S = Q K^T is multiplied with V directly.
 * The inputs q, k and v and the scores s (S) are BF16; the output is F32. The arrays q, k, v and
 * out have shape [tokens,ld], in which each head occupies d columns. */
#ifndef KVR_BENCH_PRODUCTS_BF16_H
#define KVR_BENCH_PRODUCTS_BF16_H

#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_bf16_products;

enum kvr_status kvr_bf16_products_open(struct kvr_bf16_products **out, int64_t m, int64_t n, int d,
                                       int64_t ld, int n_threads);
/* Accepts NULL. */
void kvr_bf16_products_close(struct kvr_bf16_products **p);
/* Computes s = q k^T and out = s v for one head. `thread`, in [0, n_threads), selects a oneDNN
 * stream and its memory objects; concurrent calls must pass different values. */
int kvr_bf16_products_run(struct kvr_bf16_products *p, int thread, const kvr_bf16 *q,
                          const kvr_bf16 *k, const kvr_bf16 *v, kvr_bf16 *s, float *out);

#ifdef __cplusplus
}
#endif
#endif
