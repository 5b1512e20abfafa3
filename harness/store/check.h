/* check.h - verifies a database, and rescues the intact part of a damaged one.
 *
 *     struct kvr_check_result r;
 *     KVR_TRY(kvr_store_check("kvreel.db", say, NULL, &r));
 *     if (r.problems) ...
 *     KVR_TRY(kvr_store_rescue("kvreel.db", "saved.db", say, NULL, &r));
 *
 * Checks SQLite's structure and constraints, the columns generated from a cell's spec, and the
 * checksum of every cell, session and sweep. Databases of earlier versions have no checksums, or
 * none for sweeps. */
#ifndef KVR_STORE_CHECK_H
#define KVR_STORE_CHECK_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness/store/store.h"

struct kvr_check_result {
    int problems;
    int64_t cells, sessions, sweeps;                /* intact */
    int64_t lost_cells, lost_sessions, lost_sweeps; /* damaged */
    bool checksummed;                               /* the database has checksums */
};

/* A problem as text: "cell 1d1c.. is not what was written: its checksum is another". */
typedef void kvr_problem_fn(void *ctx, const char *what);

/* KVR_OK with or without problems; on KVR_ENOMEM the reported problems are incomplete. `fn` may be
 * NULL. KVR_ENOTFOUND, KVR_ESCHEMA: not a database of kvreel; a file that SQLite cannot read is a
 * problem, not an error. */
enum kvr_status kvr_store_check(const char *path, kvr_problem_fn *fn, void *ctx,
                                struct kvr_check_result *out);

/* KVR_EFORMAT with the first problem and a remedy, if there is one. */
enum kvr_status kvr_store_must_be_whole(const char *path);

/* Copies every intact cell, session and sweep into a new database at `to`; reports the others.
 * KVR_EINVAL: `to` exists. */
enum kvr_status kvr_store_rescue(const char *path, const char *to, kvr_problem_fn *fn, void *ctx,
                                 struct kvr_check_result *out);

#endif
