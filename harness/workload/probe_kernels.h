/* probe_kernels.h - matrix multiplication in double precision for the attention probe (probe.h).
 * Each CPU instruction set has its own function table.
 *
 *     kvr_probe_kernels()->mul(a, lda, m, b, ldb, k, n, c, ldc);
 *
 * Results are bit-identical for all instruction sets, because every sum over k is computed in the
 * order of k and without FMA. */
#ifndef KVR_WORKLOAD_PROBE_KERNELS_H
#define KVR_WORKLOAD_PROBE_KERNELS_H

#include <stdint.h>

#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_probe_kernels {
    /* C[i][j] += sum_k A[i][k] B[k][j], for m <= 4 rows of A and n columns of B, where n is a
     * multiple of 16. */
    void (*mul)(const double *a, int64_t lda, int m, const double *b, int64_t ldb, int64_t k,
                int64_t n, double *c, int64_t ldc);
};

KVR_ISA_TABLES(struct kvr_probe_kernels, kvr_probe_kernels)

#ifdef __cplusplus
}
#endif
#endif
