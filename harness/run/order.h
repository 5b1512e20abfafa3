/* order.h - computes the order in which the cells of a sweep start. A cell is one run of one method
 * on one prompt and seed.
 *
 * A repeat is one more cell with the same method, prompt and seed. Cells start in rounds, one round
 * per repeat, so that drift of the machine's speed affects all methods equally. Within a round,
 * groups (cells that differ only in the method) are shuffled. Within a group, the BF16 baseline
 * starts first, then the methods in shuffled order. The shuffle depends only on the seed and the
 * keys (hashes) of the cells. */
#ifndef KVR_RUN_ORDER_H
#define KVR_RUN_ORDER_H

#include "harness/plan/sweep.h"

/* Sets *out to the indices of all cells in start order; the caller frees *out. */
enum kvr_status kvr_order(int **out, const struct kvr_sweep *sweep, uint64_t seed);

#endif
