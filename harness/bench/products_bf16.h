/* products_bf16.h - both products of attention by oneDNN in BF16, for comparison.
 *
 *     KVR_TRY(kvr_bf16_products_open(&p, m, n, d, ld, n_threads));
 *     status = kvr_bf16_products_run(p, thread, q, k, v, s, out);      s [m,n]; dnnl_status_t
 *     kvr_bf16_products_close(&p);
 *
 * q, k, v and s are BF16, sums and out F32. q, k, v and out are [tokens][ld]; a head is d columns. */
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
/* Computes one head. `thread` selects the scratch: calls that run at the same time need different numbers below
 * n_threads. */
int kvr_bf16_products_run(struct kvr_bf16_products *p, int thread, const kvr_bf16 *q,
                          const kvr_bf16 *k, const kvr_bf16 *v, kvr_bf16 *s, float *out);

#ifdef __cplusplus
}
#endif
#endif
