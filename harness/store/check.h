/* check.h - is a database what was written to it? And what is whole of one that is not?
 *
 *     struct kvr_check_result r;
 *     KVR_TRY(kvr_store_check("kvreel.db", say, NULL, &r));
 *     if (r.problems) ...
 *     KVR_TRY(kvr_store_rescue("kvreel.db", "saved.db", say, NULL, &r));
 *
 * Looked at: SQLite's own structure and constraints, the columns that are made of a cell's spec,
 * and the checksum of every cell, session and sweep. A database of an earlier version has no
 * checksums, or none of sweeps. */
#ifndef KVR_STORE_CHECK_H
#define KVR_STORE_CHECK_H

#include <sqlite3.h>
#include <stdbool.h>

#include "harness/store/store.h"

struct kvr_check_result {
    int problems;
    int64_t cells, sessions, sweeps;                /* that are whole */
    int64_t lost_cells, lost_sessions, lost_sweeps; /* that are not */
    bool sealed;                                    /* there are checksums */
};

/* A problem, in words: "cell 1d1c.. is not what was written: its checksum is another". */
typedef void kvr_problem_fn(void *ctx, const char *what);

/* KVR_OK whatever was found; KVR_ENOMEM: what was told does not count. `fn` may be NULL. KVR_ENOTFOUND, KVR_ESCHEMA: not a database of ours;
 * a file that SQLite cannot read at all is a problem, not an error. */
enum kvr_status kvr_store_check(const char *path, kvr_problem_fn *fn, void *ctx,
                                struct kvr_check_result *out);

/* KVR_EFORMAT with the first problem and what to do, if there is one. */
enum kvr_status kvr_store_must_be_whole(const char *path);

/* Every cell, session and sweep that is whole into a new database at `to`; the others are told and
 * left. KVR_EINVAL: there is something at `to`. */
enum kvr_status kvr_store_rescue(const char *path, const char *to, kvr_problem_fn *fn, void *ctx,
                                 struct kvr_check_result *out);

#endif
