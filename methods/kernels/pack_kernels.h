/* pack_kernels.h - kernels of pack.h, one table of function pointers per instruction set.
 *
 * A bit plane stores bits [low, low + f) of every code in fields of f = 1, 2, 4 or 8 bits. */
#ifndef KVR_METHODS_KERNELS_PACK_KERNELS_H
#define KVR_METHODS_KERNELS_PACK_KERNELS_H

#include "harness/core/isa.h"
#include "methods/kernels/pack.h"

struct kvr_pack_kernels {
    /* Packs bits [low, low + f) of the codes [n, nc] of n tokens into one plane. Each byte of a row
     * [nc] has the fields of 8/f tokens of one channel, and rows start `stride` bytes apart. If n
     * is not a multiple of 8/f, the unused fields of the last row become 0. */
    void (*plane)(uint8_t *row, int64_t stride, int f, int low, int64_t n, int64_t nc,
                  const uint8_t *codes);
    /* Sets codes[c] to the f-bit field at bit `shift` of row[c], moved to bit `low`. */
    void (*fields)(const uint8_t *row, int f, int shift, int low, int64_t nc, uint8_t *codes);
    /* Like `fields`, but ORs the field into codes[c] instead of replacing codes[c]. */
    void (*more_fields)(const uint8_t *row, int f, int shift, int low, int64_t nc, uint8_t *codes);
};
KVR_ISA_TABLES(struct kvr_pack_kernels, kvr_pack_kernels)

#endif
