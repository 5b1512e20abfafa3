/* probe_kernels_isa.c - matrix product C += A B in double, for A with few rows and B with many
 * columns. The accumulators of 4 rows and VECS vectors of W columns stay in registers. */
#include "harness/workload/probe_kernels.h"

#if KVR_ISA_AVX512
enum { W = 8, VECS = 2 };
#elif KVR_ISA_AVX2
enum { W = 4, VECS = 2 };
#elif defined(__aarch64__)
enum { W = 2, VECS = 4 };
#else
enum { W = 2, VECS = 2 };
#endif

enum { ROWS = 4, WIDE = VECS * W };
_Static_assert(16 % WIDE == 0, "n is a multiple of 16");
typedef double vec __attribute__((vector_size(W * 8), aligned(8), may_alias));

/* Always inlined, so that m is a compile-time constant. */
static inline __attribute__((always_inline)) void mul_block(const double *a, int64_t lda,
                                                            const double *b, int64_t ldb, int64_t k,
                                                            double *c, int64_t ldc, const int m)
{
    vec acc[ROWS][VECS];

    for (int i = 0; i < m; i++)
        for (int j = 0; j < VECS; j++)
            acc[i][j] = *(const vec *)(c + i * ldc + j * W);
    for (int64_t p = 0; p < k; p++) {
        vec line[VECS];

        for (int j = 0; j < VECS; j++)
            line[j] = *(const vec *)(b + p * ldb + j * W);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < VECS; j++)
                acc[i][j] += a[i * lda + p] * line[j];
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < VECS; j++)
            *(vec *)(c + i * ldc + j * W) = acc[i][j];
}

static void mul(const double *a, int64_t lda, int m, const double *b, int64_t ldb, int64_t k,
                int64_t n, double *c, int64_t ldc)
{
    for (int64_t j = 0; j < n; j += WIDE) {
        if (m == ROWS)
            mul_block(a, lda, b + j, ldb, k, c + j, ldc, ROWS);
        else
            for (int i = 0; i < m; i++)
                mul_block(a + i * lda, lda, b + j, ldb, k, c + i * ldc + j, ldc, 1);
    }
}

const struct kvr_probe_kernels KVR_ISA_NAME(kvr_probe_kernels) = { .mul = mul };
