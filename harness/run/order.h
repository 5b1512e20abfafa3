/* order.h - the start order of cells.
 *
 * Cells start round by round, so that drift of the machine affects all methods equally. Within a
 * round groups are shuffled; within a group the baseline comes first, then the methods in shuffled
 * order. The shuffle depends only on the seed and the cells' keys. */
#ifndef KVR_RUN_ORDER_H
#define KVR_RUN_ORDER_H

#include "harness/plan/sweep.h"

/* Writes the indices of all cells in start order to *out, malloc'ed. */
enum kvr_status kvr_order(int **out, const struct kvr_sweep *sweep, uint64_t seed);

#endif
