/* keep.h - one sweep of a database, without the others. */
#ifndef KVR_STORE_KEEP_H
#define KVR_STORE_KEEP_H

#include "harness/store/store.h"

/* Deletes cells that are neither in the plan of `sweep` (its id) nor the baseline of one that is, all
 * other sweeps, and sessions without a cell or an attempt; what stays keeps its checksums. One
 * transaction, then the file shrinks. */
enum kvr_status kvr_store_keep_sweep(struct kvr_store *s, const char *sweep);

#endif
