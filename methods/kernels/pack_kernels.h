/* pack_kernels.h - kernels of pack.h by instruction set.
 *
 * A plane has f-bit fields, f = 1, 2, 4 or 8; `low` is the lowest code bit it stores. */
#ifndef KVR_METHODS_KERNELS_PACK_KERNELS_H
#define KVR_METHODS_KERNELS_PACK_KERNELS_H

#include "harness/core/isa.h"
#include "methods/kernels/pack.h"

struct kvr_pack_kernels {
    /* Packs codes [n, nc] of n tokens into the first nc bytes of rows `stride` bytes apart, one per
     * 8/f tokens; fields of missing tokens become 0. */
    void (*plane)(uint8_t *row, int64_t stride, int f, int low, int64_t n, int64_t nc,
                  const uint8_t *codes);
    /* codes[c] = or |= the field at bit `shift` of row[c], shifted to bit `low`. */
    void (*fields)(const uint8_t *row, int f, int shift, int low, int64_t nc, uint8_t *codes);
    void (*more_fields)(const uint8_t *row, int f, int shift, int low, int64_t nc, uint8_t *codes);
};
KVR_ISA_TABLES(struct kvr_pack_kernels, kvr_pack_kernels)

#endif
