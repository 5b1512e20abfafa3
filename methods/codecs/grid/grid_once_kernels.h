/* grid_once_kernels.h - functions that find the outliers of BF16 values while they quantize the
 * values with one grid, one table per instruction set.
 *
 *     k->tokens(&block, &rows, m, least, &seen);     codes, sums, and sets columns aside
 *     n = k->mark(seen.stray, seen.n, bound);        once the sums have given the bound
 *     k->columns(&block, seen.stray, seen.n, bound); codes columns with outliers again
 *
 * Only blocks that satisfy kvr_grid_is_narrow() are supported. Outliers are values whose magnitude
 * exceeds a float bound. The arguments `least` and `bound` are the upper 16 bits of positive
 * floats. A BF16 value x exceeds such a float in magnitude if and only if the low 15 bits of x are
 * greater than these 16 bits. The stored bytes are identical to those of replacing all outliers
 * first and quantizing afterwards. Columns that may contain an outlier are set aside; they are
 * called strays. */
#ifndef KVR_METHODS_GRID_ONCE_KERNELS_H
#define KVR_METHODS_GRID_ONCE_KERNELS_H

#include "methods/codecs/grid/grid_narrow_kernels.h"

/* A stray: a column of sixteen tokens of one channel, set aside because it may contain an
 * outlier. */
struct kvr_grid_stray {
    int32_t t0, c;   /* index of the column's first token in the block, and index of its channel */
    kvr_bf16 before; /* value of the channel at token t0 - 1, or its replacement if this value is an
                      * outlier */
    uint16_t over;   /* bit i is 1 if x[i] is an outlier */
    kvr_bf16 x[KVR_NARROW_TOKENS];
};

/* Results of a pass over a block: the list of strays, the sum of all values, and the sum of their
 * squares. Each sum is the total of eight partial sums in double. Values are first added in F32,
 * with at most 64 roundings before a result is added to a double. */
struct kvr_grid_seen {
    double sum[8], square[8];
    struct kvr_grid_stray *stray; /* list of n columns, allocated for `most` columns */
    int64_t n, most;
};

struct kvr_grid_once {
    bool exists; /* whether these functions exist for this instruction set */
    /* For grids with axis=tokens and group=16: quantizes 16 tokens of m channels, where m is a
     * multiple of 64 and at most KVR_GRID_STRIP. Appends every column with a magnitude above
     * `least` to the list seen->stray. Returns false if this list is full, or if a scale or minimum
     * has a magnitude of 65504 or more. */
    bool (*tokens)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m,
                   uint16_t least, struct kvr_grid_seen *seen);
    /* Sets the field `over` of n strays by comparing their values with `bound`. Returns the number
     * of outliers. */
    int64_t (*mark)(struct kvr_grid_stray *stray, int64_t n, uint16_t bound);
    /* Quantizes n strays again, with every outlier replaced. Its replacement is the last earlier
     * value of the stray that is not an outlier, or the field `before` if there is none. Returns
     * true. */
    bool (*columns)(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                    uint16_t bound);
    /* Reads one token of n channels, a multiple of 64, and adds its values and their squares to the
     * sums of `seen`. Sets bit i % 64 of over[i / 64] if |x[i]| exceeds `least`. `range` receives
     * the smallest and the largest of the other values, mapped to integers as in grid_fit.h.
     * Returns false, and `range` is not valid, unless the other values include both positive and
     * negative ones. */
    bool (*look)(const kvr_bf16 *x, int64_t n, uint16_t least, struct kvr_grid_seen *seen,
                 uint64_t *over, int32_t range[2]);
    /* For grids with axis=token: quantizes n tokens, where n is at most 8 and a multiple of 8 /
     * bits, the number of codes per byte. The range of token i is low[i] to high[i], mapped to
     * integers as in grid_fit.h, and includes 0. Values outside this range are clipped. Returns
     * false if a scale or minimum has a magnitude of 65504 or more. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n,
                 const int32_t *low, const int32_t *high);
};
KVR_ISA_TABLES(struct kvr_grid_once, kvr_grid_once)

#endif
