/* grid_narrow_kernels.h - quantizes directly from BF16 rows, with one table of functions per
 * instruction set.
 *
 *     done = k->tokens(&block, NULL, t0, c0, m, x, stride, prefetch);   rest: kvr_grid_encoders()
 *
 * The functions support grids of 2, 4 or 8 bits in the intended version (grid.h), computed in F32.
 * The 16 tokens of a column stay in registers until they are encoded, and so does their residual if
 * a second grid follows. The stored bytes are identical to those of kvr_grid_encoders() for the
 * same values. */
#ifndef KVR_METHODS_GRID_NARROW_KERNELS_H
#define KVR_METHODS_GRID_NARROW_KERNELS_H

#include "methods/codecs/grid/grid_kernels.h"

enum { KVR_NARROW_TOKENS = 16 /* per group */ };

/* Rows of BF16 values. x points to the value of token t0 and channel c0, and rows are `stride`
 * values apart. */
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
    /* For grids with axis=tokens and group=16: encodes 16 tokens of m channels, where m is a
     * multiple of `span`. The grid of `first` quantizes the values. If `second` is not NULL, its
     * grid quantizes their residual. Returns the number of encoded channels, a multiple of `span`.
     * The number is less than m if the next `span` channels have a scale or minimum with a
     * magnitude of 65504 or more, and 0 if the two grids are not supported together. The caller
     * must then encode the next channels with kvr_grid_encoders(). */
    int (*tokens)(const struct kvr_grid_block *first, const struct kvr_grid_block *second,
                  const struct kvr_narrow_rows *rows, int m);
    /* Like `tokens` for one grid, but first applies the Walsh-Hadamard transform in F32 to every
     * head of d channels, where d is 64 or 128. Both m and the returned number are multiples of d.
     * An asymmetric grid also rejects a head with a magnitude outside [2^-60, 2^100]. */
    int (*walsh)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m, int d);
    /* For grids with axis=token: encodes all channels of n tokens. n is at most 8 and a multiple of
     * 8 / bits, the number of codes per byte, and the number of channels is a multiple of `span`.
     * Returns false if a scale or minimum has a magnitude of 65504 or more, or if a token does not
     * have values of both signs. The caller must then encode the rows with kvr_grid_encoders(). */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n);
};
KVR_ISA_TABLES(struct kvr_grid_narrow, kvr_grid_narrow)

/* Returns whether the functions of kvr_grid_narrow support the grid and arithmetic of block b. */
static inline bool kvr_grid_is_narrow(const struct kvr_grid_block *b)
{
    const int bits = b->grid.bits;

    return !b->study && !b->bf16 && (bits == 2 || bits == 4 || bits == 8) &&
           (b->grid.axis == KVR_AXIS_TOKEN ||
            (b->grid.axis == KVR_AXIS_TOKENS && b->grid.group == KVR_NARROW_TOKENS));
}

#endif
