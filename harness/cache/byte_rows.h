/* byte_rows.h - quantizes keys and values to INT8 for attend_bytes.h, in device scratch.
 *
 *     struct kvr_byte_rows to = kvr_byte_rows_at(scratch, n_heads, n_tiles);
 *
 *     kvr_byte_mean_cuda(s, n_heads, k, n, to.mu);              mean of the first rows
 *     kvr_byte_rows_cuda(s, n_heads, k, v, n, tile, &to);       rows [n,H,128] of F32, from a tile on
 *
 * As in attend_dot.h, the mean mu of a head is subtracted from the head's keys. A key has one scale
 * per token; a value has one scale per channel and tile of KVR_BYTE_TILE tokens. The INT8 codes
 * have wgmma's layout. The tokens of V are permuted so that the accumulators of S = Q K^T in a
 * thread are also its A fragments for the GEMM P V:
 *
 *     keys     [tiles,128 tokens][H][128 channels]    signed
 *     values   [tiles,128 channels][H][128 tokens]    offset by 128; within 32 tokens, token
 *                                                     16 u + 8 v + 2 t + w is at 16 u + 4 t + 2 v + w
 *
 * The scales of a tile are loaded as one TMA box, whose rows have equal width:
 *
 *     of keys     [tiles,9][H][32 floats]    (A, C) of each token; then 2^E and 0, or NaN if a token of
 *                                            the tile has a NaN or an infinity
 *     of values   [tiles,4][H][32 floats]    one per channel, NaN if it has a NaN or an infinity
 *
 * The int32 accumulators need no conversion instruction: a bias keeps them in [0, 2^23), where the
 * bits of an integer x, read as a float, are the denormal x 2^-149. A key scale a < 2^E is stored
 * as A = a 2^(127 - E) and C = -bias a 2^(-22 - E), so that one FMA gives the score in units of
 * 2^(22 + E). For padding tokens past the end of a span, C is -infinity, which masks their scores.
 * Value scales b are stored as b 2^22 / 255. */
#ifndef KVR_CACHE_BYTE_ROWS_H
#define KVR_CACHE_BYTE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/device/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVR_BYTE_TILE = 128, /* tokens per tile */
    KVR_BYTE_D = 128,    /* channels per head */
    KVR_BYTE_MEAN = 64,  /* mu is the mean of the first 64 tokens */
    KVR_BYTE_KEY_STEPS = 9,
    KVR_BYTE_VALUE_STEPS = 4,      /* rows of value scales per tile */
    KVR_BYTE_BIAS = 255 * 255 * 32 /* bias that is added to integer scores; it exceeds their largest
                                    * magnitude, 127 * 127 * 128 */
};

struct kvr_byte_rows {
    uint8_t *keys, *values;
    float *key_steps, *value_steps;
    float *mu; /* [H][128] */
    int64_t n_tiles;
};

/* Bytes of scratch that the buffers of n_tiles tiles need. */
size_t kvr_byte_rows_size(int n_heads, int64_t n_tiles);
/* Divides `scratch` into the buffers of struct kvr_byte_rows. The scratch has kvr_byte_rows_size()
 * bytes and is 128-byte aligned. */
struct kvr_byte_rows kvr_byte_rows_at(void *scratch, int n_heads, int64_t n_tiles);

/* mu [H][128]: mean of the first KVR_BYTE_MEAN keys of `rows` [n,H,128]. */
void kvr_byte_mean_cuda(struct kvr_stream *s, int n_heads, const float *rows, int64_t n, float *mu);

/* Quantizes n tokens of keys and values, F32 [n,H,128], into consecutive tiles that start at tile
 * number `tile`. If n is not a multiple of the tile size, the last tile is padded with masked
 * tokens. */
void kvr_byte_rows_cuda(struct kvr_stream *s, int n_heads, const float *k, const float *v,
                        int64_t n, int64_t tile, const struct kvr_byte_rows *to);

#ifdef __cplusplus
}
#endif
#endif
