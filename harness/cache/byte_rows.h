/* byte_rows.h - quantizes keys and values to INT8 in device scratch, for the int8 attention of
 * attend_bytes.h.
 *
 *     struct kvr_byte_rows to = kvr_byte_rows_at(scratch, n_heads, n_tiles);
 *
 *     kvr_byte_mean_cuda(s, n_heads, k, n, to.mu);              mean of the first rows
 *     kvr_byte_rows_cuda(s, n_heads, k, v, n, tile, &to);       rows [n,H,128] of F32, from a tile on
 *
 * Before quantization, the mean key mu of a head is subtracted from the keys of this head
 * (attend_dot.h). A key has one scale per token; a value has one scale per channel and tile of
 * KVR_BYTE_TILE tokens. INT8 operands of wgmma must be contiguous along the GEMM's K dimension (the
 * dimension that is summed over). Keys are therefore contiguous along channels, and values along
 * tokens. The tokens of V are permuted in groups of 32, so that a thread's accumulators of S = Q
 * K^T are in the order of its A fragments for P V:
 *
 *     keys     [tiles,128 tokens][H][128 channels]    signed
 *     values   [tiles,128 channels][H][128 tokens]    offset by 128; within 32 tokens, token
 *                                                     16 u + 8 v + 2 t + w is at 16 u + 4 t + 2 v + w
 *
 * One TMA box loads the key scales of a tile and head, and another box loads the value scales. The
 * boxes consist of rows of 32 floats:
 *
 *     of keys     [tiles,9][H][32 floats]    (A, C) of each token; then 2^E and 0, or NaN if a token of
 *                                            the tile has a NaN or an infinity
 *     of values   [tiles,4][H][32 floats]    one per channel, NaN if it has a NaN or an infinity
 *
 * An int32 accumulator x becomes a float without a conversion instruction. A bias keeps x in [0,
 * 2^23), where the bits of x, read as a float, are the denormal x 2^-149. Let s_k be the key scale
 * of a token. E is the smallest integer, but at least -120, for which s_k < 2^E for all tokens of
 * the tile. The scratch holds A = s_k 2^(127 - E) and C = -bias s_k 2^(-22 - E) for each token. One
 * FMA then computes the score in units of 2^(22 + E): A (x 2^-149) + C = s_k (x - bias) 2^(-22 -
 * E). For padding tokens past the end of a span, C is -infinity, which masks their scores. A value
 * scale s_v is stored as s_v 2^22 / 255. The factor 2^22 cancels the 2^-22 that the same conversion
 * leaves in the accumulators of P V; 255 is the code of the softmax weight 1. */
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
    KVR_BYTE_MEAN = 64,  /* mu is the mean of a head's first 64 keys */
    KVR_BYTE_KEY_STEPS = 9,
    KVR_BYTE_VALUE_STEPS = 4,      /* 32-float rows of value scales per tile and head */
    KVR_BYTE_BIAS = 255 * 255 * 32 /* added to an integer score to make it positive; the magnitude
                                    * of a score is at most 127 * 127 * 128 */
};

struct kvr_byte_rows {
    uint8_t *keys, *values;
    float *key_steps, *value_steps;
    float *mu; /* [H][128] */
    int64_t n_tiles;
};

/* Bytes of scratch for the codes and scales of n_tiles tiles, and for the mean keys mu. */
size_t kvr_byte_rows_size(int n_heads, int64_t n_tiles);
/* Divides `scratch` into the buffers of struct kvr_byte_rows. The scratch has kvr_byte_rows_size()
 * bytes and is 128-byte aligned. */
struct kvr_byte_rows kvr_byte_rows_at(void *scratch, int n_heads, int64_t n_tiles);

/* Writes to mu [H][128] the mean of the first KVR_BYTE_MEAN keys of `rows` [n,H,128], or of all n
 * keys if n is smaller. */
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
