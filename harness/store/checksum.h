/* checksum.h - checksums of database rows, which detect changes made by other programs.
 *
 * A checksum is the SHA-256 of the canonical text of a group of rows. A group contains all rows of
 * one cell, of one session or of one sweep. The rows of a cell include its metrics, series, memory,
 * passes, probes, samples, artifacts and attempts. The rows of a session include the properties of
 * its machine (table `about`) and the repeated times of its baseline (table `drift`). The rows of a
 * sweep include its plan. The text excludes generated columns and NULLs, so columns and tables
 * added by later versions do not invalidate a checksum. Code that changes rows of a group updates
 * the checksum in the same transaction.
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
/* First database version (PRAGMA user_version) that has checksums of cells, of sessions and of
 * sweeps. */
extern const int kvr_checksum_since[KVR_N_CHECKSUMS];

/* Tables whose rows the checksum of a cell, of a session or of a sweep covers. Each list has
 * entries {table, name of the column that has the key of the cell, session or sweep}, and ends with
 * NULL. The first table of a list has one row per cell, session or sweep. */
extern const char *const kvr_checksum_tables[KVR_N_CHECKSUMS][12][2];

/* Cached prepared statements for checking many cells, sessions and sweeps of one database. `schema`
 * is the name of that database in SQLite, which is "main" or the name under which it was
 * attached. */
struct kvr_checksums {
    sqlite3 *db;
    const char *path, *schema;
    sqlite3_stmt *rows[KVR_N_CHECKSUMS][12], *read, *write; /* NULL: not prepared yet */
};
/* Like kvr_checksum_write() and kvr_checksum_check() below, but for any SQLite connection instead
 * of an open store. The caller sets the members db, path and schema of `s` and zeroes the rest. */
enum kvr_status kvr_checksums_write(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key);
enum kvr_status kvr_checksums_check(struct kvr_checksums *s, enum kvr_checksum_what what,
                                    const char *key);
void kvr_checksums_close(struct kvr_checksums *s);

/* Writes the checksum of the cell, session or sweep `key` in the database of `s`. Prepared
 * statements are cached until the store is closed. */
struct kvr_store;
enum kvr_status kvr_checksum_write(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key);
/* Writes the checksums of cells, sessions and sweeps that a database of an older version lacks. */
enum kvr_status kvr_checksum_add_missing(struct kvr_store *s, int64_t version);
/* Compares the rows of a cell, session or sweep with the stored checksum. KVR_EFORMAT: the rows
 * changed after the checksum was written. The check succeeds if the database has neither rows nor a
 * checksum for `key`. */
enum kvr_status kvr_checksum_check(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *key);

#endif
