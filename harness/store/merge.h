/* merge.h - merges the databases of shards, the tasks that a sweep was divided into.
 *
 *     KVR_TRY(kvr_store_open(&s, "all.db"));
 *     KVR_TRY(kvr_store_merge(s, "shard-0.db", &m));
 *
 * Merging is commutative and idempotent, because the choice between two attempts does not depend on
 * the order of merging. If a cell has several attempts, the table `cell` keeps the attempt with the
 * best outcome. OK is the best outcome, then UNSUPPORTED, then EXCLUDED and all failures, then
 * SKIPPED, then INTERRUPTED. Among attempts of equal rank, the table keeps the latest. The table
 * `attempt` keeps all attempts, and the view `conflict` lists pairs of OK attempts at one cell with
 * different frames. */
#ifndef KVR_STORE_MERGE_H
#define KVR_STORE_MERGE_H

#include "harness/store/store.h"

struct kvr_merge {
    int64_t cells;    /* number of cells in the shard */
    int64_t added;    /* number of cells of the shard that the database `s` did not have */
    int64_t replaced; /* number of cells whose row in `s` was replaced by the shard's row */
};

/* Merges the database `shard` into `s` in one transaction; `shard` itself is unchanged.
 * KVR_ENOTFOUND: no such file. KVR_EFORMAT: the shard is damaged. KVR_ESCHEMA: the shard is not a
 * kvreel database, or has a later version. KVR_EINVAL: the timed cells of `shard` and of `s` ran on
 * different GPU models, and kvr_store_any_card() was not called. */
enum kvr_status kvr_store_merge(struct kvr_store *s, const char *shard, struct kvr_merge *out);

/* Allows merging timed cells of different GPUs. Views such as `summary` group rows by the column
 * `machine`, so they do not mix times of different GPUs. */
void kvr_store_any_card(struct kvr_store *s);

/* Sets *n to the number of rows of the view `conflict`. Each row is a pair of OK attempts at one
 * cell whose frames differ. */
enum kvr_status kvr_store_conflicts(struct kvr_store *s, int64_t *n);

#endif
