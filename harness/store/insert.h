/* insert.h - inserts rows from records: columns and bindings come from records.def.
 *
 *     const struct kvr_row_of of = { r->key };
 *     const struct kvr_part parts[] = { { KVR_RECORD_of, &of }, { KVR_RECORD_mem, r->mem } };
 *     KVR_TRY(kvr_insert(s, "mem", parts, 2, sizeof *r->mem, r->n_mem, "writing memory")); */
#ifndef KVR_STORE_INSERT_H
#define KVR_STORE_INSERT_H

#include <sqlite3.h>

#include "harness/store/record.h"

/* Columns taken from one record. */
struct kvr_part {
    enum kvr_record_id id;
    const void *item;
};

/* Inserts `n` rows. The last part's item advances by `step` bytes per row; the others are
 * constant. */
enum kvr_status kvr_insert(struct kvr_store *s, const char *table, const struct kvr_part *parts,
                           int n_parts, size_t step, int n, const char *what);
/* Like kvr_insert, with `*nth` set to the number of each row, from 0, before it is bound. */
enum kvr_status kvr_insert_counted(struct kvr_store *s, const char *table,
                                   const struct kvr_part *parts, int n_parts, size_t step, int n,
                                   int *nth, const char *what);

#endif
