/* keep.c - deletes all sweeps but one from a database, in the tables that checksum.h lists. */
#include "harness/store/keep.h"

#include <stdlib.h>
#include <string.h>

#include "harness/store/checksum.h"
#include "harness/store/sql.h"

/* SQL queries for the keys of the cells, sessions and sweeps to keep; ?1 is the sweep's key. */
static const char *const stays[KVR_N_CHECKSUMS] = {
    [KVR_CHECKSUM_CELL] = "SELECT key FROM temp.kept",
    [KVR_CHECKSUM_SESSION] = "SELECT session FROM cell UNION SELECT session FROM attempt",
    [KVR_CHECKSUM_SWEEP] = "SELECT ?1",
};

static enum kvr_status run(struct kvr_store *s, const char *sql, const char *sweep)
{
    sqlite3_stmt *q = NULL;
    enum kvr_status st = kvr_sql_prepare(s, &q, sql);

    if (st == KVR_OK && sqlite3_bind_parameter_count(q))
        kvr_sql_bind(q, "t", sweep);
    if (st == KVR_OK)
        st = kvr_sql_step(s, q, "keeping one sweep");
    sqlite3_finalize(q);
    return st;
}

/* Deletes all cells, sessions or sweeps (`what`) except those of stays[what]. It starts with the
 * last of their tables, because the rows of later tables refer to those of the first. */
static enum kvr_status drop_others(struct kvr_store *s, enum kvr_checksum_what what,
                                   const char *sweep)
{
    char sql[512];
    int n = 0;

    while (kvr_checksum_tables[what][n][0])
        n++;
    while (n-- > 0) {
        sqlite3_snprintf(sizeof sql, sql, "DELETE FROM %s WHERE %s NOT IN (%s)",
                         kvr_checksum_tables[what][n][0], kvr_checksum_tables[what][n][1],
                         stays[what]);
        KVR_TRY(run(s, sql, sweep));
    }
    sqlite3_snprintf(sizeof sql, sql, "DELETE FROM seal WHERE what = '%s' AND key NOT IN (%s)",
                     kvr_checksum_names[what], stays[what]);
    return run(s, sql, sweep);
}

static enum kvr_status keep(struct kvr_store *s, const char *sweep)
{
    KVR_TRY(
        run(s,
            "INSERT INTO temp.kept SELECT cell FROM plan WHERE sweep = ?1 UNION SELECT baseline "
            "FROM cell JOIN plan ON plan.cell = cell.key WHERE plan.sweep = ?1",
            sweep));
    for (int what = 0; what < KVR_N_CHECKSUMS; what++)
        KVR_TRY(drop_others(s, (enum kvr_checksum_what)what, sweep));
    return run(s, "DELETE FROM running", sweep);
}

enum kvr_status kvr_store_keep_sweep(struct kvr_store *s, const char *sweep)
{
    enum kvr_status st;

    KVR_TRY(kvr_sql_exec(s,
                         "PRAGMA foreign_keys = OFF; CREATE TEMP TABLE kept(key TEXT PRIMARY KEY); "
                         "BEGIN IMMEDIATE",
                         "keeping one sweep"));
    st = keep(s, sweep);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "COMMIT", "keeping one sweep");
    if (st != KVR_OK && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (st == KVR_OK)
        st = kvr_sql_exec(s, "DROP TABLE temp.kept; VACUUM; PRAGMA foreign_keys = ON",
                          "keeping one sweep");
    return st;
}
