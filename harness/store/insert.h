/* insert.h - inserts structs as database rows; records.def lists the columns and the struct
 * members.
 *
 *     const struct kvr_row_of of = { r->key };
 *     const struct kvr_part parts[] = { { KVR_RECORD_of, &of }, { KVR_RECORD_mem, r->mem } };
 *     KVR_TRY(kvr_insert(s, "mem", parts, 2, sizeof *r->mem, r->n_mem, "writing memory")); */
#ifndef KVR_STORE_INSERT_H
#define KVR_STORE_INSERT_H

#include <sqlite3.h>

#include "harness/store/record.h"

/* A struct whose members are columns of a row. `id` names the struct's record in records.def, and
 * `item` points to the struct. */
struct kvr_part {
    enum kvr_record_id id;
    const void *item;
};

/* Inserts n rows. The last element of `parts` is an array of n structs, `step` bytes apart, one per
 * row. Each of the other elements is one struct, whose values are written to every row. */
enum kvr_status kvr_insert(struct kvr_store *s, const char *table, const struct kvr_part *parts,
                           int n_parts, size_t step, int n, const char *what);
/* Like kvr_insert(), but sets *nth to the index of the row, from 0, before it reads the row's
 * values. If `nth` points to a member of a struct in `parts`, the member's column thus receives the
 * row's index. */
enum kvr_status kvr_insert_counted(struct kvr_store *s, const char *table,
                                   const struct kvr_part *parts, int n_parts, size_t step, int n,
                                   int *nth, const char *what);

#endif
