/* attend_bf16.h - CPU attention by BF16 matrix products with F32 accumulation, on AMX tiles.
 *
 *     const struct kvr_bf16_kernels *f = kvr_bf16_kernels();
 *     f->pack_keys(k, ld, n, d, pk);
 *     f->pack_values(v, ld, n, d, pv);
 *     f->scores(q, ldq, d, pk, s, lds, m, n);              s = q k
 *     f->online_softmax(s, lds, m, n, max, sum, rescale, p, ldp);  p = exp(s - max), sums updated
 *     f->add_values(p, ldp, pv, 0, n, out, ldo, m, d);        out += p v
 *
 * Scaled queries q / sqrt(D), decoded keys, decoded values and softmax weights are rounded to BF16;
 * scores, sums of weights and outputs are F32. Let u = 2^-8 and e = 2^-24 be the unit roundoffs of
 * BF16 and F32. The error of a query's score with a key is at most delta, where c runs over the d
 * channels:
 *
 *     delta = ((1 + u)^2 - 1 + (d + 2) e) sum_c |q_c k_c|
 *
 * The error of an output is at most (exp(2 delta) (1 + u)^2 (1 + 2 w + 2 n e) - 1) sum_j p_j |v_j|.
 * Here p_j is the softmax weight and v_j the value of key j of n keys, and w is the relative error
 * of exp(x) in online_softmax. The keys and values of a BF16 cache need no rounding. For such a
 * cache, 1 + u replaces (1 + u)^2 in both bounds.
 *
 * Panels have the layout of the second operand of the AMX instruction TDPBF16PS. A panel of keys
 * has PAD = KVR_ATTEND_PAD tokens of d channels, stored as [d/2][PAD tokens][2 channels]. A panel
 * of values has PAD channels of n tokens, stored as [n/2][PAD channels][2 tokens]. The tokens of a
 * tile, and the channels of keys and queries, are zero-padded to a multiple of KVR_BF16_STEP. */
#ifndef KVR_CACHE_ATTEND_BF16_H
#define KVR_CACHE_ATTEND_BF16_H

#include <stdint.h>

#include "harness/core/dtype.h"
#include "harness/core/isa.h"

enum {
    KVR_BF16_STEP = 32, /* GEMM K dimension of one AMX tile instruction, in BF16 elements */
    KVR_BF16_ROWS = 64, /* maximum query rows per softmax call */
    KVR_BF16_GROUP = 4, /* maximum tiles of KVR_ATTEND_TILE keys per softmax call */
};

static inline int kvr_bf16_padded(int n)
{
    return (n + KVR_BF16_STEP - 1) / KVR_BF16_STEP * KVR_BF16_STEP;
}

struct kvr_bf16_kernels {
    /* Packs the keys or values of n tokens, d channels each, into panels (see the top of this
     * file). Consecutive tokens are `ld` elements apart. */
    void (*pack_keys)(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out);
    void (*pack_values)(const kvr_bf16 *rows, int64_t ld, int n, int d, kvr_bf16 *out);
    /* Computes s [m][n] = q keys^T from zero-padded queries q [m][d] and keys packed by pack_keys.
     * n is a multiple of KVR_BF16_STEP. */
    void (*scores)(const kvr_bf16 *q, int64_t ldq, int d, const kvr_bf16 *keys, float *s,
                   int64_t lds, int m, int n);
    /* Adds bias [n] to each row of s [m][n]. The number of keys n is a multiple of
     * KVR_ATTEND_PAD. */
    void (*add_bias)(float *s, int64_t lds, const float *bias, int m, int n);
    /* Computes the same online softmax as kvr_attend_kernels.online_softmax. The scores s [m][n]
     * have at most KVR_BF16_ROWS queries (m). The number of keys n is a multiple of KVR_BF16_STEP.
     * The softmax weights p [m][n] are rounded to BF16, but `sum` accumulates them before rounding.
     * exp(x) has a relative error of 8e-6 + 1.2e-7 |x| and is 0 for x below -87.7. */
    void (*online_softmax)(float *s, int64_t lds, int m, int n, float *max, float *sum,
                           float *rescale, kvr_bf16 *p, int64_t ldp);
    /* Adds the matrix product of the softmax weights p [m][n] and the values [n][d] to out [m][d].
     * The number of keys n is a multiple of KVR_BF16_STEP, and the number of channels d is one of
     * KVR_ATTEND_PAD. The values are packed in tiles of KVR_ATTEND_TILE tokens. Successive tiles
     * are `next` elements apart. */
    void (*add_values)(const kvr_bf16 *p, int64_t ldp, const kvr_bf16 *values, int64_t next, int n,
                       float *out, int64_t ldo, int m, int d);
};

KVR_ISA_TILE_TABLES(struct kvr_bf16_kernels, kvr_bf16_kernels)

#endif
