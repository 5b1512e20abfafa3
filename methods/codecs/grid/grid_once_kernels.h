/* grid_once_kernels.h - quantizes BF16 values with one grid in the same pass that finds their
 * outliers, with one table of functions per instruction set.
 *
 *     k->tokens(&block, &rows, m, least, &seen);     codes, sums, and sets columns aside
 *     n = k->mark(seen.stray, seen.n, bound);        once the sums have given the bound
 *     k->columns(&block, seen.stray, seen.n, bound); codes columns with outliers again
 *
 * Only blocks that satisfy kvr_grid_is_narrow() are supported. Magnitudes of BF16 values are
 * compared as integers: |x| > bound if the low 15 bits of x exceed the upper 16 bits of the bound.
 * The bytes equal those of replacing the outliers first and quantizing afterwards. */
#ifndef KVR_METHODS_GRID_ONCE_KERNELS_H
#define KVR_METHODS_GRID_ONCE_KERNELS_H

#include "methods/codecs/grid/grid_narrow_kernels.h"

/* Sixteen tokens of a channel that may include an outlier (a stray). */
struct kvr_grid_stray {
    int32_t t0, c;   /* first token within the block, and channel */
    kvr_bf16 before; /* value of the token before token t0, or the replacement of that value */
    uint16_t over;   /* bit i is 1 if x[i] is an outlier */
    kvr_bf16 x[KVR_NARROW_TOKENS];
};

/* Sums of values and of squares, and the strays found. The sums are accumulated in F32, in eight
 * lanes, and rounded at most 64 times before they are added in double. */
struct kvr_grid_seen {
    double sum[8], square[8];
    struct kvr_grid_stray *stray; /* strays found so far, [most]; the first n are in use */
    int64_t n, most;
};

struct kvr_grid_once {
    bool exists; /* false if this instruction set has none of these functions */
    /* axis=tokens, group 16: quantizes 16 tokens of m channels, where m <= KVR_GRID_STRIP is a
     * multiple of 64. A column with a magnitude above `least` is also added to the strays. Returns
     * false if there would be too many strays, or if values are at the limits of FP16. */
    bool (*tokens)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m,
                   uint16_t least, struct kvr_grid_seen *seen);
    /* Sets the field `over` of n strays; returns the number of outliers. */
    int64_t (*mark)(struct kvr_grid_stray *stray, int64_t n, uint16_t bound);
    /* Quantizes the columns of n strays again, with each outlier replaced by the value of the token
     * before it. Returns true. */
    bool (*columns)(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                    uint16_t bound);
    /* Reads one token of n channels, a multiple of 64, and adds its values and squares to the sums
     * of `seen`. Bit i % 64 of over[i / 64] is set if x[i] exceeds `least`; `range` becomes the
     * range of the elements that do not exceed `least`, mapped to integers as in grid_fit.h.
     * Returns false if the elements that do not exceed `least` all have the same sign. */
    bool (*look)(const kvr_bf16 *x, int64_t n, uint16_t least, struct kvr_grid_seen *seen,
                 uint64_t *over, int32_t range[2]);
    /* axis=token: quantizes n tokens, a multiple of 8 / bits and at most 8. The ranges low and high
     * [16] of the tokens are mapped as in grid_fit.h and include both signs; values outside them
     * are clipped. Returns false if a scale is at the limit of FP16. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n,
                 const int32_t *low, const int32_t *high);
};
KVR_ISA_TABLES(struct kvr_grid_once, kvr_grid_once)

#endif
