/* order.h - in which order cells are started.
 *
 * Round by round, so that a drift of the machine meets all methods alike; within a round groups
 * in a shuffled order, within a group the baseline first, then the methods shuffled. The shuffle
 * is a function of the seed and of the cells' keys: the same sweep, the same order. */
#ifndef KVR_RUN_ORDER_H
#define KVR_RUN_ORDER_H

#include "harness/plan/sweep.h"

/* Indices of all cells; malloc'ed. */
enum kvr_status kvr_order(int **out, const struct kvr_sweep *sweep, uint64_t seed);

#endif
