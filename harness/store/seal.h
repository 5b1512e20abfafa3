/* seal.h - checksums of rows, which detect changes made outside of kvreel.
 *
 * A checksum is the SHA-256 of the canonical text of a group's rows: a cell with its metrics,
 * series, memory, passes, probes, samples, artifacts and attempts; a session with its facts and
 * drift; a sweep with its plan. Generated columns and NULLs are excluded, so that columns and
 * tables of later versions do not invalidate it. Code that writes such rows renews the checksum in
 * the same transaction.
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
/* First database version with checksums of that kind. */
extern const int kvr_seal_since[KVR_N_SEALS];

/* Tables of a group and their key columns, table first, NULL-terminated; the first table has one
 * row per key. */
extern const char *const kvr_seal_tables[KVR_N_SEALS][12][2];

/* Cached statements for many groups of one schema, "main" or an attached one. */
struct kvr_sealer {
    sqlite3 *db;
    const char *path, *schema;
    sqlite3_stmt *rows[KVR_N_SEALS][12], *read, *write; /* NULL: not prepared yet */
};
/* Like kvr_seal() and kvr_seal_check() below. Initialise the first three members, the rest with
 * 0. */
enum kvr_status kvr_sealer_write(struct kvr_sealer *s, enum kvr_seal_what what, const char *key);
enum kvr_status kvr_sealer_check(struct kvr_sealer *s, enum kvr_seal_what what, const char *key);
void kvr_sealer_close(struct kvr_sealer *s);

/* For a store's own database; statements are cached until it is closed. */
struct kvr_store;
enum kvr_status kvr_seal(struct kvr_store *s, enum kvr_seal_what what, const char *key);
/* Checksums all groups of the kinds that a database of this version lacks. */
enum kvr_status kvr_seal_since_version(struct kvr_store *s, int64_t version);
/* KVR_EFORMAT: changed since it was written. A group without rows and without a checksum is
 * valid. */
enum kvr_status kvr_seal_check(struct kvr_store *s, enum kvr_seal_what what, const char *key);

#endif
