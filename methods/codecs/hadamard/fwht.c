/* fwht.c - the Walsh-Hadamard transform of many rows: divides the rows among threads, which call
 * fwht_isa.c. */
#include "methods/codecs/hadamard/fwht.h"

#include <omp.h>

#include "methods/codecs/hadamard/fwht_kernels.h"

void kvr_fwht(float *x, int64_t rows, int d, enum kvr_compute compute)
{
    enum { PART = 256 }; /* rows per task */
    const struct kvr_fwht_kernels *k = kvr_fwht_kernels();
    const bool bf16 = compute == KVR_COMPUTE_BF16;

    if (rows <= PART || omp_in_parallel()) {
        k->rows(x, x, rows, d, bf16);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i += PART)
        k->rows(x + i * d, x + i * d, rows - i < PART ? rows - i : PART, d, bf16);
}
