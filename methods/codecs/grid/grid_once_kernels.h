/* grid_once_kernels.h - one grid coded from BF16 in the same pass that finds its outliers, by
 * instruction set.
 *
 *     k->tokens(&block, &rows, m, least, &seen);     codes, sums, and sets columns aside
 *     n = k->mark(seen.stray, seen.n, bound);        once the sums have given the bound
 *     k->columns(&block, seen.stray, seen.n, bound); codes columns with outliers again
 *
 * For the blocks of kvr_grid_is_narrow(). Magnitudes of BF16 values are compared as integers: |x| >
 * bound if the low 15 bits of x exceed the upper 16 of the bound. The bytes are those of replacing
 * outliers first. */
#ifndef KVR_METHODS_GRID_ONCE_KERNELS_H
#define KVR_METHODS_GRID_ONCE_KERNELS_H

#include "methods/codecs/grid/grid_narrow_kernels.h"

/* Sixteen tokens of a channel that may hold an outlier. */
struct kvr_grid_stray {
    int32_t t0, c;   /* the first token within the block; the channel */
    kvr_bf16 before; /* the previous token's value or replacement */
    uint16_t over;   /* bit i: x[i] is an outlier */
    kvr_bf16 x[KVR_NARROW_TOKENS];
};

/* Sums of values and of squares, and the columns set aside. Sums are F32 and rounded at most 64
 * times before they are added in double, in eight lanes. */
struct kvr_grid_seen {
    double sum[8], square[8];
    struct kvr_grid_stray *stray; /* [most], n of them used */
    int64_t n, most;
};

struct kvr_grid_once {
    bool exists; /* false: this variant has none of these kernels */
    /* axis=tokens, group 16: codes 16 tokens, m <= KVR_GRID_STRIP channels, a multiple of 64. Columns
     * with a magnitude above `least` are set aside. False: too many columns would be set aside, or
     * values are at the limits of FP16. */
    bool (*tokens)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m,
                   uint16_t least, struct kvr_grid_seen *seen);
    /* Sets `over` of n strays; returns the number of outliers. */
    int64_t (*mark)(struct kvr_grid_stray *stray, int64_t n, uint16_t bound);
    /* Codes n strays again: an outlier takes the value of the token before it. Returns true. */
    bool (*columns)(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                    uint16_t bound);
    /* One token of n channels, a multiple of 64: adds to the sums; bit i % 64 of over[i / 64]: x[i]
     * exceeds `least`; range: range of the other elements, as in kvr_grid_once.rows. False: the
     * other elements have one sign. */
    bool (*look)(const kvr_bf16 *x, int64_t n, uint16_t least, struct kvr_grid_seen *seen,
                 uint64_t *over, int32_t range[2]);
    /* axis=token: codes n tokens, a multiple of 8 / bits, at most 8, whose least and greatest values
     * are low and high [16], in the order of grid_fit.h and of both signs; values beyond them are
     * clipped. False: a scale is at FP16's limit. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n,
                 const int32_t *low, const int32_t *high);
};
KVR_ISA_TABLES(struct kvr_grid_once, kvr_grid_once)

#endif
