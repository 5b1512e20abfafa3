/* pack_isa.c - see pack_kernels.h. */
#include <string.h>

#include "methods/kernels/pack_kernels.h"

static void plane(uint8_t *packed, int64_t stride, int f, int low, int64_t n, int64_t nc,
                  const uint8_t *codes)
{
    const int per_byte = 8 / f;
    const unsigned mask = (1u << f) - 1u;

    for (int64_t t = 0; t < n; t += per_byte) {
        uint8_t *restrict row = packed + t / per_byte * stride;
        const int m = n - t < per_byte ? (int)(n - t) : per_byte;

        memset(row, 0, (size_t)nc);
        for (int i = 0; i < m; i++) {
            const uint8_t *restrict src = codes + (t + i) * nc;

            for (int64_t c = 0; c < nc; c++)
                row[c] = (uint8_t)(row[c] | (((unsigned)src[c] >> low) & mask) << (i * f));
        }
    }
}

static void fields(const uint8_t *restrict row, int f, int shift, int low, int64_t nc,
                   uint8_t *restrict codes)
{
    const unsigned mask = (1u << f) - 1u;

    for (int64_t c = 0; c < nc; c++)
        codes[c] = (uint8_t)((((unsigned)row[c] >> shift) & mask) << low);
}

static void more_fields(const uint8_t *restrict row, int f, int shift, int low, int64_t nc,
                        uint8_t *restrict codes)
{
    const unsigned mask = (1u << f) - 1u;

    for (int64_t c = 0; c < nc; c++)
        codes[c] = (uint8_t)(codes[c] | (((unsigned)row[c] >> shift) & mask) << low);
}

const struct kvr_pack_kernels KVR_ISA_NAME(kvr_pack_kernels) = {
    .plane = plane,
    .fields = fields,
    .more_fields = more_fields,
};
