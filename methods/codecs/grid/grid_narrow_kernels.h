/* grid_narrow_kernels.h - quantizes directly from BF16 rows, with one table of functions per
 * instruction set.
 *
 *     done = k->tokens(&block, NULL, t0, c0, m, x, stride, prefetch);   rest: kvr_grid_encoders()
 *
 * The functions support grids of 2, 4 or 8 bits in the intended reading (grid.h), computed in F32.
 * The 16 tokens of a column stay in registers until they are encoded, and so does their residual if
 * a second grid follows. The stored bytes are identical to those of kvr_grid_encoders() for the
 * same values. */
#ifndef KVR_METHODS_GRID_NARROW_KERNELS_H
#define KVR_METHODS_GRID_NARROW_KERNELS_H

#include "methods/codecs/grid/grid_kernels.h"

enum { KVR_NARROW_TOKENS = 16 /* per group */ };

/* Rows of BF16 values; x points to element (t0, c0), and rows are `stride` values apart. */
struct kvr_narrow_rows {
    const kvr_bf16 *x;
    int64_t stride;
    int64_t t0, c0;                           /* within the block */
    const struct kvr_grid_prefetch *prefetch; /* first of the rows to prefetch; their number equals
                                               * the number of rows that the call encodes */
};

struct kvr_grid_narrow {
    int span; /* number of channels that are encoded at a time; 0 if these functions do not exist
               * for this instruction set */
    /* axis=tokens, group 16: encodes 16 tokens of m channels, a multiple of `span`. `first`
     * quantizes the values, and `second`, unless NULL, quantizes their residual. Returns the number
     * of encoded channels, a multiple of `span`. If this number is less than m, a scale or minimum
     * of the next `span` channels is not below 65504 in magnitude. kvr_grid_encoders() must then
     * encode these channels. */
    int (*tokens)(const struct kvr_grid_block *first, const struct kvr_grid_block *second,
                  const struct kvr_narrow_rows *rows, int m);
    /* Like `tokens` for one grid, after a Walsh-Hadamard transform in F32 of every head of d
     * channels, 64 or 128. m and the returned number are multiples of d. */
    int (*walsh)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m, int d);
    /* axis=token: encodes all channels of n tokens, where n is at most 8 and a multiple of 8 /
     * bits, and the number of channels is a multiple of `span`. Returns false if a scale or minimum
     * is not below 65504 in magnitude; kvr_grid_encoders() must then encode the rows. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n);
};
KVR_ISA_TABLES(struct kvr_grid_narrow, kvr_grid_narrow)

/* Whether the functions of kvr_grid_narrow support this block. */
static inline bool kvr_grid_is_narrow(const struct kvr_grid_block *b)
{
    const int bits = b->grid.bits;

    return !b->study && !b->bf16 && (bits == 2 || bits == 4 || bits == 8) &&
           (b->grid.axis == KVR_AXIS_TOKEN ||
            (b->grid.axis == KVR_AXIS_TOKENS && b->grid.group == KVR_NARROW_TOKENS));
}

#endif
