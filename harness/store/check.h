/* check.h - verifies a database, and copies the intact part of a damaged database.
 *
 *     struct kvr_check_result r;
 *     KVR_TRY(kvr_store_check("kvreel.db", say, NULL, &r));
 *     if (r.problems) ...
 *     KVR_TRY(kvr_store_rescue("kvreel.db", "saved.db", say, NULL, &r));
 *
 * The check covers SQLite's file structure and constraints, the columns generated from each cell's
 * spec, and the checksum of every cell, session and sweep. Databases of earlier versions lack some
 * or all checksums; the check skips the missing ones. */
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

/* Callback that receives the text of each problem of a database, such as "cell 1d1c.. is not what
 * was written". */
typedef void kvr_problem_fn(void *ctx, const char *what);

/* Checks a database and calls `fn` (may be NULL) for each problem. Returns KVR_OK even if there are
 * problems; a file that SQLite cannot read is also a problem. KVR_ENOTFOUND: no such file.
 * KVR_ESCHEMA: not a kvreel database. KVR_ENOMEM: memory ran out, so the check is incomplete. */
enum kvr_status kvr_store_check(const char *path, kvr_problem_fn *fn, void *ctx,
                                struct kvr_check_result *out);

/* Checks a database and returns KVR_EFORMAT if there is a problem. The message gives the first
 * problem and what to do. */
enum kvr_status kvr_store_check_intact(const char *path);

/* Copies every intact cell, session and sweep to a new database at `to`, and calls `fn` for each
 * damaged cell, session or sweep. KVR_EINVAL: `to` exists. */
enum kvr_status kvr_store_rescue(const char *path, const char *to, kvr_problem_fn *fn, void *ctx,
                                 struct kvr_check_result *out);

#endif
