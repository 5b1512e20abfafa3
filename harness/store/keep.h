/* keep.h - deletes all sweeps but one from a database, with their cells and sessions. */
#ifndef KVR_STORE_KEEP_H
#define KVR_STORE_KEEP_H

#include "harness/store/store.h"

/* Keeps the sweep with id `sweep`, the cells of its plan, and the baselines of these cells. In
 * addition, keeps the sessions in which these cells were measured or attempted. All other sweeps,
 * cells and sessions are deleted in one transaction, followed by VACUUM. The checksums of the
 * remaining rows stay valid. */
enum kvr_status kvr_store_keep_sweep(struct kvr_store *s, const char *sweep);

#endif
