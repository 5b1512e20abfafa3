/* pack.c - packs codes into bits and unpacks them; pack.h describes the layout. */
#include "methods/kernels/pack.h"

#include "methods/kernels/pack_kernels.h"

static int64_t plane_rows(int64_t n_tok, int field)
{
    int per_byte = 8 / field;

    return (n_tok + per_byte - 1) / per_byte;
}

size_t kvr_pack_bytes(int64_t n_tok, int64_t channels, int bits)
{
    size_t n = 0;

    for (int f = 8; f >= 1; f /= 2)
        if (bits & f)
            n += (size_t)(plane_rows(n_tok, f) * channels);
    return n;
}

void kvr_pack(uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t0, int64_t n,
              int64_t c0, int64_t nc, const uint8_t *codes)
{
    const struct kvr_pack_kernels *k = kvr_pack_kernels();
    int low = bits;

    for (int f = 8; f >= 1; f /= 2) {
        if (!(bits & f))
            continue;
        low -= f;
        k->plane(packed + t0 * f / 8 * channels + c0, channels, f, low, n, nc, codes);
        packed += plane_rows(n_tok, f) * channels;
    }
}

void kvr_unpack_token(const uint8_t *packed, int64_t n_tok, int64_t channels, int bits, int64_t t,
                      int64_t c0, int64_t nc, uint8_t *codes)
{
    const struct kvr_pack_kernels *k = kvr_pack_kernels();
    int low = bits;

    for (int f = 8; f >= 1; f /= 2) {
        const int per_byte = 8 / f;
        const uint8_t *row = packed + t / per_byte * channels + c0;

        if (!(bits & f))
            continue;
        low -= f;
        (low + f == bits ? k->fields : k->more_fields)(row, f, (int)(t % per_byte) * f, low, nc,
                                                       codes);
        packed += plane_rows(n_tok, f) * channels;
    }
}
