/* seal.h - checksums of rows: what was written is what is read, or that is seen.
 *
 * A seal is the SHA-256 of the canonical text of all rows of a group: a cell with its metrics,
 * series, memory, passes, probes, samples, artifacts and attempts; a session with its facts and
 * drift; a sweep with its plan. Columns that are made of others and those that are NULL are left
 * out, so that a later version's columns and tables do not break it. Whoever writes such rows seals
 * them in the same transaction.
 *
 *     KVR_TRY(kvr_seal_check(s, KVR_SEAL_CELL, key));     before they change
 *     ...
 *     KVR_TRY(kvr_seal(s, KVR_SEAL_CELL, key)); */
#ifndef KVR_STORE_SEAL_H
#define KVR_STORE_SEAL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/sha256.h"
#include "harness/core/status.h"

enum kvr_seal_what { KVR_SEAL_CELL, KVR_SEAL_SESSION, KVR_SEAL_SWEEP, KVR_N_SEALS };
extern const char *const kvr_seal_names[KVR_N_SEALS]; /* "cell", "session", "sweep" */
/* Which version of the database was the first to have them. */
extern const int kvr_seal_since[KVR_N_SEALS];

/* The tables that a group is made of and their columns with its key, table first, NULL-terminated;
 * the first is the one that has a row for each key. */
extern const char *const kvr_seal_tables[KVR_N_SEALS][12][2];

/* Statements kept for many groups of one schema, "main" or one that is attached. */
struct kvr_sealer {
    sqlite3 *db;
    const char *path, *schema;
    sqlite3_stmt *rows[KVR_N_SEALS][12], *read, *write; /* NULL: not made yet */
};
/* As kvr_seal() and kvr_seal_check() below. Begin with these three, the others 0. */
enum kvr_status kvr_sealer_write(struct kvr_sealer *s, enum kvr_seal_what what, const char *key);
enum kvr_status kvr_sealer_check(struct kvr_sealer *s, enum kvr_seal_what what, const char *key);
void kvr_sealer_close(struct kvr_sealer *s);

/* Those of a store's own database, its statements kept until it is closed. */
struct kvr_store;
enum kvr_status kvr_seal(struct kvr_store *s, enum kvr_seal_what what, const char *key);
/* Every group of a kind that a database of this version has no seals of. */
enum kvr_status kvr_seal_since_version(struct kvr_store *s, int64_t version);
/* KVR_EFORMAT: it is not what was sealed. A group without rows and without a seal is whole. */
enum kvr_status kvr_seal_check(struct kvr_store *s, enum kvr_seal_what what, const char *key);

#endif
