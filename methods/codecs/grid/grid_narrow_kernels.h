/* grid_narrow_kernels.h - quantization directly from BF16 rows, by instruction set.
 *
 *     done = k->tokens(&block, NULL, t0, c0, m, x, stride, prefetch);   rest: kvr_grid_encoders()
 *
 * For the intended reading in F32 with 2, 4 or 8 bits. A column of 16 tokens stays in registers
 * from its load to its codes, including the residual for a second grid. The bytes equal those of
 * kvr_grid_encoders() for the same values. */
#ifndef KVR_METHODS_GRID_NARROW_KERNELS_H
#define KVR_METHODS_GRID_NARROW_KERNELS_H

#include "methods/codecs/grid/grid_kernels.h"

enum { KVR_NARROW_TOKENS = 16 /* per group */ };

/* Rows of BF16 values: element (t0, c0), rows `stride` values apart. */
struct kvr_narrow_rows {
    const kvr_bf16 *x;
    int64_t stride;
    int64_t t0, c0;                           /* within the block */
    const struct kvr_grid_prefetch *prefetch; /* position of as many further rows to prefetch */
};

struct kvr_grid_narrow {
    int span; /* channels per step; 0: this variant has no such kernels */
    /* axis=tokens, group 16: encodes 16 tokens, m channels, a multiple of span. second: grid of the
     * residual, or NULL. Returns the number of encoded channels, a multiple of span. If fewer than
     * m, the next span has values at the limits of FP16 and needs kvr_grid_encoders(). */
    int (*tokens)(const struct kvr_grid_block *first, const struct kvr_grid_block *second,
                  const struct kvr_narrow_rows *rows, int m);
    /* Like `tokens` for one grid, after a Walsh-Hadamard transform of every head of d channels, 64
     * or 128, in F32; m is a multiple of d, and so is the result. */
    int (*walsh)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int m, int d);
    /* axis=token: encodes n tokens, a multiple of 8 / bits, at most 8; all channels, a multiple of
     * span. False: the rows need kvr_grid_encoders(), as above. */
    bool (*rows)(const struct kvr_grid_block *b, const struct kvr_narrow_rows *rows, int n);
};
KVR_ISA_TABLES(struct kvr_grid_narrow, kvr_grid_narrow)

/* Whether the kernels above support this block. */
static inline bool kvr_grid_is_narrow(const struct kvr_grid_block *b)
{
    const int bits = b->grid.bits;

    return !b->study && !b->bf16 && (bits == 2 || bits == 4 || bits == 8) &&
           (b->grid.axis == KVR_AXIS_TOKEN ||
            (b->grid.axis == KVR_AXIS_TOKENS && b->grid.group == KVR_NARROW_TOKENS));
}

#endif
