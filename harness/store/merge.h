/* merge.h - merges the databases of shards.
 *
 *     KVR_TRY(kvr_store_open(&s, "all.db"));
 *     KVR_TRY(kvr_store_merge(s, "shard-0.db", &m));
 *
 * Merging is commutative and idempotent, because the choice between two attempts does not depend
 * on the order of merging. Of two attempts at one cell, the row of the table `cell` shows the
 * attempt with the better outcome, in the order OK, UNSUPPORTED, EXCLUDED or a failure, SKIPPED,
 * INTERRUPTED. Of two attempts that this order does not separate, the row shows the later
 * attempt. The table `attempt` keeps all attempts, and the view `conflict` lists pairs of OK
 * attempts at one cell with different frames. */
#ifndef KVR_STORE_MERGE_H
#define KVR_STORE_MERGE_H

#include "harness/store/store.h"

struct kvr_merge {
    int64_t cells;    /* number of cells in the shard */
    int64_t added;    /* number of cells of the shard that this database lacked */
    int64_t replaced; /* number of cells whose row was replaced by the shard's row */
};

/* Merges the database `shard`, which is only read, in one transaction. KVR_ENOTFOUND: no such file.
 * KVR_EFORMAT: the shard is damaged. KVR_ESCHEMA: the shard is not a kvreel database, or has a
 * later version. KVR_EINVAL: the timed cells of the shard and of this database ran on different GPU
 * models, and kvr_store_any_card() was not called. */
enum kvr_status kvr_store_merge(struct kvr_store *s, const char *shard, struct kvr_merge *out);

/* Allows merging timed cells of different GPUs. Views such as `summary` group rows by the column
 * `machine`, so they do not mix times of different GPUs. */
void kvr_store_any_card(struct kvr_store *s);

/* Sets *n to the number of pairs of OK attempts at one cell with different frames, which the view
 * `conflict` lists. */
enum kvr_status kvr_store_conflicts(struct kvr_store *s, int64_t *n);

#endif
