/* merge.h - merges the databases of shards.
 *
 *     KVR_TRY(kvr_store_open(&s, "all.db"));
 *     KVR_TRY(kvr_store_merge(s, "shard-0.db", &m));
 *
 * Merging is commutative and idempotent: cells are keyed by content, and of two attempts at one
 * cell the better one is shown (OK first, then the later one). All attempts stay in the table
 * `attempt`; contradictory measurements are listed in the view `conflict`. */
#ifndef KVR_STORE_MERGE_H
#define KVR_STORE_MERGE_H

#include "harness/store/store.h"

struct kvr_merge {
    int64_t cells;    /* cells in the shard */
    int64_t added;    /* cells that this database did not have */
    int64_t replaced; /* cells for which the shard's attempt was the better one */
};

/* One transaction. KVR_ENOTFOUND: no such file; KVR_EFORMAT: damaged; KVR_ESCHEMA: another version;
 * KVR_EINVAL: timed cells of a GPU of another name, unless kvr_store_any_card() was called. The shard is
 * only read. */
enum kvr_status kvr_store_merge(struct kvr_store *s, const char *shard, struct kvr_merge *out);

/* Times of several cards may be joined; tables keep them apart by `machine`. */
void kvr_store_any_card(struct kvr_store *s);

/* Number of rows in the view `conflict`. */
enum kvr_status kvr_store_conflicts(struct kvr_store *s, int64_t *n);

#endif
