/* grid_once_kernels.h - quantizes BF16 values with one grid in the same pass that finds their
 * outliers, with one table of functions per instruction set.
 *
 *     k->tokens(&block, &rows, m, least, &seen);     codes, sums, and sets columns aside
 *     n = k->mark(seen.stray, seen.n, bound);        once the sums have given the bound
 *     k->columns(&block, seen.stray, seen.n, bound); codes columns with outliers again
 *
 * Only blocks that satisfy kvr_grid_is_narrow() are supported. A BF16 value x exceeds the float
 * `bound` in magnitude if the low 15 bits of x, as an integer, are greater than the upper 16 bits
 * of `bound`. The stored bytes are identical to those of replacing all outliers first and
 * quantizing afterwards. Columns that may contain an outlier are set aside; they are called
 * strays. */
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

/* Results of a pass over a block: the columns set aside (strays), and the sum of the values and the
 * sum of their squares, each as eight partial sums in double. At most 64 roundings in F32 precede
 * each addition to a double. */
struct kvr_grid_seen {
    double sum[8], square[8];
    struct kvr_grid_stray *stray; /* list of n columns, allocated for `most` columns */
    int64_t n, most;
};

struct kvr_grid_once {
    bool exists; /* whether these functions exist for this instruction set */
    /* axis=tokens, group 16: quantizes 16 tokens of m channels, where m <= KVR_GRID_STRIP is a
     * multiple of 64. Appends every column with a magnitude above `least` to the list seen->stray.
     * Returns false if this list is full, or if a scale or minimum is not below 65504 in
     * magnitude. */
    bool (*tokens)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m,
                   uint16_t least, struct kvr_grid_seen *seen);
    /* Sets the field `over` of n columns that were set aside, by comparing their values with
     * `bound`. Returns the number of outliers. */
    int64_t (*mark)(struct kvr_grid_stray *stray, int64_t n, uint16_t bound);
    /* Quantizes again n columns that were set aside. Each outlier is replaced by the channel's
     * value at the token before it, or by the replacement of that value if it is also an outlier.
     * Returns true. */
    bool (*columns)(const struct kvr_grid_block *b, const struct kvr_grid_stray *stray, int64_t n,
                    uint16_t bound);
    /* Reads one token of n channels, a multiple of 64, and adds its values and squares to the sums
     * of `seen`. Sets bit i % 64 of over[i / 64] if |x[i]| exceeds `least`. `range` becomes the
     * smallest and the largest of the other elements, mapped to integers as in grid_fit.h. Returns
     * false if these other elements all have the same sign. */
    bool (*look)(const kvr_bf16 *x, int64_t n, uint16_t least, struct kvr_grid_seen *seen,
                 uint64_t *over, int32_t range[2]);
    /* axis=token: quantizes n tokens, where n is at most 8 and a multiple of 8 / bits. The range of
     * token i is low[i] to high[i], mapped to integers as in grid_fit.h, and includes 0. Values
     * outside this range are clipped. Returns false if a scale or minimum is not below 65504 in
     * magnitude. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n,
                 const int32_t *low, const int32_t *high);
};
KVR_ISA_TABLES(struct kvr_grid_once, kvr_grid_once)

#endif
