/* merge.h - joins the databases of shards.
 *
 *     KVR_TRY(kvr_store_open(&s, "all.db"));
 *     KVR_TRY(kvr_store_merge(s, "shard-0.db", &m));
 *
 * Merging in any order, and the same file again and again, gives the same content: cells are
 * keyed by what they are, and of two attempts at one cell the better is shown (OK before
 * everything else, then the later one). All attempts stay in the table `attempt`; measurements
 * that contradict each other are the rows of the view `conflict`. */
#ifndef KVR_STORE_MERGE_H
#define KVR_STORE_MERGE_H

#include "harness/store/store.h"

struct kvr_merge {
    int64_t cells;    /* in the shard */
    int64_t added;    /* new here */
    int64_t replaced; /* the shard's attempt was the better one */
};

/* All of it or nothing, in one transaction. KVR_ENOTFOUND: no such file; KVR_EFORMAT: damaged;
 * KVR_ESCHEMA: of another version. The shard is only read. */
enum kvr_status kvr_store_merge(struct kvr_store *s, const char *shard, struct kvr_merge *out);

/* Rows of the view `conflict`. */
enum kvr_status kvr_store_conflicts(struct kvr_store *s, int64_t *n);

#endif
