/* keep.h - reduces a database to one sweep. */
#ifndef KVR_STORE_KEEP_H
#define KVR_STORE_KEEP_H

#include "harness/store/store.h"

/* Deletes cells that are neither in the plan of `sweep` (its id) nor a baseline of such a cell, all
 * other sweeps, and sessions without a cell or an attempt. The remaining rows keep their checksums.
 * One transaction, followed by VACUUM. */
enum kvr_status kvr_store_keep_sweep(struct kvr_store *s, const char *sweep);

#endif
