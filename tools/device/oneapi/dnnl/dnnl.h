/* dnnl.h - as much of oneDNN as the sources need that tools/device-check.sh builds, for a machine
 * without the library: one product, in plain loops. What is measured is never this. */
#ifndef KVR_TOOLS_DNNL_H
#define KVR_TOOLS_DNNL_H

#include <stdint.h>

typedef int64_t dnnl_dim_t;
typedef enum { dnnl_success } dnnl_status_t;

/* c [m,n] = alpha a b + beta c, rows of c being ldc apart; a is [m,k], or with 'T' its transpose
 * [k,m], and so is b. */
static inline dnnl_status_t dnnl_sgemm(char turn_a, char turn_b, dnnl_dim_t m, dnnl_dim_t n,
                                       dnnl_dim_t k, float alpha, const float *a, dnnl_dim_t lda,
                                       const float *b, dnnl_dim_t ldb, float beta, float *c,
                                       dnnl_dim_t ldc)
{
    for (dnnl_dim_t i = 0; i < m; i++)
        for (dnnl_dim_t j = 0; j < n; j++) {
            float sum = 0;

            for (dnnl_dim_t l = 0; l < k; l++)
                sum += (turn_a == 'T' ? a[l * lda + i] : a[i * lda + l]) *
                       (turn_b == 'T' ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = alpha * sum + (beta == 0 ? 0.0f : beta * c[i * ldc + j]);
        }
    return dnnl_success;
}

#endif
