/* dnnl.h - as much of oneDNN as the sources need that tools/device-check.sh builds, for a machine
 * without the library: one product, in plain loops. What is measured is never this. */
#ifndef KVR_TOOLS_DNNL_H
#define KVR_TOOLS_DNNL_H

#include <stddef.h>
#include <stdint.h>

typedef int64_t dnnl_dim_t;
typedef enum { dnnl_success } dnnl_status_t;

/* Names in declarations of what is not called (harness/core/onednn_guard.def). */
typedef int dnnl_engine_kind_t, dnnl_scratchpad_mode_t;
typedef struct dnnl_memory_desc dnnl_memory_desc_t;
typedef struct dnnl_exec_arg dnnl_exec_arg_t;
typedef struct dnnl_engine *dnnl_engine_t;
typedef struct dnnl_stream *dnnl_stream_t;
typedef struct dnnl_memory *dnnl_memory_t;
typedef struct dnnl_primitive *dnnl_primitive_t;
typedef struct dnnl_primitive_desc *dnnl_primitive_desc_t;
typedef struct dnnl_primitive_attr *dnnl_primitive_attr_t;
typedef const struct dnnl_primitive *const_dnnl_primitive_t;
typedef const struct dnnl_primitive_desc *const_dnnl_primitive_desc_t;
typedef const struct dnnl_primitive_attr *const_dnnl_primitive_attr_t;
typedef const void *const_dnnl_op_desc_t;

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
