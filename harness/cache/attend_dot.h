/* attend_dot.h - int8 attention over quantized keys and values, with int32 accumulation. Each
 * instruction set has its own table of functions.
 *
 * A tile is dequantized and requantized to 8 bits once for all queries:
 *
 *     keys      k_tc = mu_c + a_t kq_tc     a_t one scale per token, mu one mean per head
 *     values    v_tc = b_c vq_tc            b_c one scale per channel of the tile
 *     queries   q_ic = g_i qq_ic            g_i one scale per query
 *     weights   e^(s_it - m_i) = pq_it / P  m_i the row's largest score in the tile
 *
 * The integer codes kq, vq, qq and pq are rounded to nearest. kq and vq are in [-top, top] (`top`
 * is explained below), qq in [-127, 127] and pq in [0, P], where P is 255 or 127, depending on the
 * instruction set. Scores s and outputs o are computed from the codes; M_i is row i's running
 * maximum over all tiles so far:
 *
 *     s_it = g_i a_t sum_c qq_ic kq_tc + q_i . mu
 *     o_ic += e^(m_i - M_i) b_c / P sum_t pq_it vq_tc
 *
 * Subtracting mu keeps channels with a large mean from dominating the scale. The term q_i . mu is
 * computed only once per query and added to the scores of all tiles. All tiles of a head must
 * therefore use the same mu. The softmax denominator sums the quantized weights pq, so that the
 * weights of a row sum to one.
 *
 * The bound `top` of key and value codes is 127 where byte products are accumulated in int32: with
 * AVX-512 VNNI, AVX-VNNI, NEON, and portable C without SSSE3. `top` is 63 where an instruction adds
 * pairs of products in int16 (SSSE3, AVX2, AVX-512 without VNNI). In the second case, 64 is added
 * to key codes, which makes them unsigned and at most 127. Query codes are at most 127 too, so a
 * sum of two products is at most 2 * 127 * 127, which fits in int16. `kvreel bench attention`
 * measures the error of int8 attention against F32.
 *
 * Codes of keys and values are packed into panels of PAD (KVR_ATTEND_PAD) columns. Within a panel,
 * four consecutive elements along the GEMM's K dimension are adjacent. The layout of keys is
 * [tokens / PAD][D / 4][PAD][4], that of values [D / PAD][tokens / 4][PAD][4]. Padded elements have
 * the code that represents 0. */
#ifndef KVR_CACHE_ATTEND_DOT_H
#define KVR_CACHE_ATTEND_DOT_H

#include <stdint.h>

#include "harness/cache/attend_kernels.h"

static inline int kvr_round4(int n)
{
    return (n + 3) / 4 * 4;
}

/* Quantized queries of one head; a row of codes has kvr_round4(d) bytes. */
struct kvr_dot_queries {
    int8_t *code; /* [m][round4(d)] */
    float *scale; /* [m]: g */
    float *shift; /* [m]: term to subtract from the query's int32 scores; it cancels the offset that
                   * makes key codes unsigned */
    float *mean;  /* [m]: dot product of the query and the mean key mu */
};

struct kvr_dot_kernels {
    int top;
    /* Quantizes m queries q [m][d] of one head; mu [d] is the mean key of this head. A NaN in a
     * query makes the query's scale NaN. */
    void (*pack_queries)(const float *q, const float *mu, int m, int d,
                         const struct kvr_dot_queries *out);
    /* Quantizes n <= KVR_ATTEND_TILE keys, rows [n][d]. Writes padded(n) * kvr_round4(d) bytes of
     * codes and the scales scale [padded(n)]. Here padded(x) is x rounded up to a multiple of
     * KVR_ATTEND_PAD. A NaN in a key makes the token's scale NaN. */
    void (*pack_keys)(const float *rows, const float *mu, int n, int d, uint8_t *code,
                      float *scale);
    /* Quantizes the values of n tokens, rows [n][d]. Writes padded(d) * kvr_round4(n) bytes of
     * codes and the scales scale [padded(d)]. A NaN in a value makes the channel's scale NaN. */
    void (*pack_values)(const float *rows, int n, int d, int8_t *code, float *scale);
    /* Computes the scores s [m][n] of m queries and n keys, where query i is number at + i in `q`.
     * n is a multiple of KVR_ATTEND_PAD. */
    void (*scores)(const struct kvr_dot_queries *q, int64_t at, int d, const uint8_t *code,
                   const float *scale, float *s, int64_t stride, int m, int n);
    /* Computes the same online softmax as kvr_attend_kernels.online_softmax, but quantizes the
     * softmax weights to 8-bit codes p [m][KVR_ATTEND_TILE]. The quantization step of row i is
     * weight[i] = e^(m_i - M_i) / P. Here m_i is the row's largest score in the tile, M_i the row's
     * new running maximum, and P the largest code (255 or 127). */
    void (*online_softmax)(float *s, int64_t stride, const float *bias, int m, int n, float *max,
                           float *sum, float *rescale, uint8_t *p, float *weight);
    /* out[i][c] += weight[i] scale[c] sum_t p[i][t] code[t][c] for m query rows i, n tokens t and d
     * channels c, with `p` and `weight` as written by online_softmax(). d is a multiple of
     * KVR_ATTEND_PAD. */
    void (*add_values)(const uint8_t *p, const float *weight, const int8_t *code,
                       const float *scale, float *out, int64_t ldo, int n, int m, int d);
};

KVR_ISA_DOT_TABLES(struct kvr_dot_kernels, kvr_dot_kernels)

#endif
