/* byte_rows.h - keys and values of many queries as bytes, in scratch of a device.
 *
 *     struct kvr_byte_rows to = kvr_byte_rows_at(scratch, n_heads, n_tiles);
 *
 *     kvr_byte_mean_cuda(s, n_heads, k, n, to.mu);              of the first rows there are
 *     kvr_byte_rows_cuda(s, n_heads, k, v, n, tile, &to);       rows [n,H,128] of F32, from a tile on
 *
 * As attend_dot.h has them: keys less a vector mu of their head, by a step of each token; values by a
 * step of each channel of a tile, which has KVR_BYTE_TILE tokens. For products of warp groups
 *
 *     keys     [tiles,128 tokens][H][128 channels]    signed
 *     values   [tiles,128 channels][H][128 tokens]    with 128 added; of every 32 tokens token
 *                                                     16 u + 8 v + 2 t + w is at 16 u + 4 t + 2 v + w
 *
 * so that who holds scores of the first product holds weights for the second. Steps lie beside them in
 * rows of as many bytes, a tile of which is fetched as one box:
 *
 *     of keys     [tiles,9][H][32 floats]    (A, C) of each token; then 2^E and 0, or NaN if a token of
 *                                            the tile has a NaN or an infinity
 *     of values   [tiles,4][H][32 floats]    one of each channel, NaN if it has a NaN or an infinity
 *
 * Sums of products are not converted. With a bias they are not negative and below 2^23, and such an
 * integer x, taken for a float, is x 2^-149. A key's step a below 2^E gives A = a 2^(127 - E) and
 * C = -bias a 2^(-22 - E), so that one fused operation makes a score in units of 2^(22 + E) of it; behind
 * a span's last token C is -infinity. Values' steps b are stored as b 2^22 / 255. */
#ifndef KVR_CACHE_BYTE_ROWS_H
#define KVR_CACHE_BYTE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_BYTE_TILE = 128, /* tokens */
    KVR_BYTE_D = 128,    /* channels of a head */
    KVR_BYTE_MEAN = 64,  /* first tokens that mu is the mean of */
    KVR_BYTE_KEY_STEPS = 9,
    KVR_BYTE_VALUE_STEPS = 4,      /* rows of steps of a tile */
    KVR_BYTE_BIAS = 255 * 255 * 32 /* of scores: 127 * 127 * 128 and more */
};

struct kvr_byte_rows {
    uint8_t *keys, *values;
    float *key_steps, *value_steps;
    float *mu; /* [H][128] */
    int64_t n_tiles;
};

size_t kvr_byte_rows_size(int n_heads, int64_t n_tiles);
/* Where they lie in scratch of that size, 128-byte aligned. */
struct kvr_byte_rows kvr_byte_rows_at(void *scratch, int n_heads, int64_t n_tiles);

/* mu [H][128]: the mean of the first KVR_BYTE_MEAN keys of `rows` [n,H,128]. */
void kvr_byte_mean_cuda(struct kvr_stream *s, int n_heads, const float *rows, int64_t n, float *mu);

/* Codes n tokens of keys and values, F32 [n,H,128], into the tiles from `tile` on: the last of them is
 * filled up with tokens that no query sees. */
void kvr_byte_rows_cuda(struct kvr_stream *s, int n_heads, const float *k, const float *v,
                        int64_t n, int64_t tile, const struct kvr_byte_rows *to);

#ifdef __cplusplus
}
#endif
#endif
