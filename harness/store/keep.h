/* keep.h - deletes everything except one sweep from a database. */
#ifndef KVR_STORE_KEEP_H
#define KVR_STORE_KEEP_H

#include "harness/store/store.h"

/* Keeps the sweep with id `sweep`, the cells of its plan and their baselines, and the sessions with
 * a kept cell or attempt. All other sweeps, cells and sessions are deleted in one transaction,
 * followed by VACUUM. The kept rows keep their checksums. */
enum kvr_status kvr_store_keep_sweep(struct kvr_store *s, const char *sweep);

#endif
