/* checksum.h - checksums of rows, which detect changes made outside of kvreel.
 *
 * A checksum is the SHA-256 of the canonical text of a group's rows. A cell's group has its
 * metrics, series, memory, passes, probes, samples, artifacts and attempts; a session's its facts
 * and drift; a sweep's its plan. Generated columns and NULLs are excluded, so that columns and
 * tables of later versions do not invalidate it. Code that writes such rows renews the checksum in
 * the same transaction.
 *
 *     KVR_TRY(kvr_checksum_check(s, KVR_CHECKSUM_CELL, key));     before they change
 *     ...
 *     KVR_TRY(kvr_checksum_write(s, KVR_CHECKSUM_CELL, key)); */
#ifndef KVR_STORE_CHECKSUM_H
#define KVR_STORE_CHECKSUM_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/sha256.h"
#include "harness/core/status.h"

enum kvr_checksum_what {
    KVR_CHECKSUM_CELL,
    KVR_CHECKSUM_SESSION,
    KVR_CHECKSUM_SWEEP,
    KVR_N_CHECKSUMS
};
extern const char *const kvr_checksum_names[KVR_N_CHECKSUMS]; /* "cell", "session", "sweep" */
/* First database version with checksums of that kind. */
extern const int kvr_checksum_since[KVR_N_CHECKSUMS];

/* Tables of a group and their key columns, table first, NULL-terminated; the first table has one
 * row per key. */
extern const char *const kvr_checksum_tables[KVR_N_CHECKSUMS][12][2];

/* Cached statements for many groups of one schema, "main" or an attached one. */
struct kvr_checksums {
    sqlite3 *db;
    const char *path, *schema;
    sqlite3_stmt *rows[KVR_N_CHECKSUMS][12], *read, *write; /* NULL: not prepared yet */
};
/* Like kvr_checksum_write() and kvr_checksum_check() below. Initialise the first three members,
 * zero the rest. */
enum kvr_status kvr_checksums_write(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key);
enum kvr_status kvr_checksums_check(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key);
void kvr_checksums_close(struct kvr_checksums *s);

/* For a store's own database; statements are cached until it is closed. */
struct kvr_store;
enum kvr_status kvr_checksum_write(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key);
/* Writes checksums of all groups of the kinds for which a database of this version has none. */
enum kvr_status kvr_checksum_add_missing(struct kvr_store *s, int64_t version);
/* KVR_EFORMAT: the group was changed after its checksum was written. A group without rows and
 * without a checksum is valid. */
enum kvr_status kvr_checksum_check(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key);

#endif
