/* sql.h - shared by the store's files: SQLite errors as statuses, binding, helpers. */
#ifndef KVR_STORE_SQL_H
#define KVR_STORE_SQL_H

#include <sqlite3.h>
#include <stdint.h>

#include "harness/store/checksum.h"
#include "harness/store/store.h"

struct kvr_store {
    sqlite3 *db;
    char *path;
    bool has_tables;
    bool any_card; /* merging joins timed cells of unlike GPUs */
    char *copy;    /* path of the backup made before migration; NULL: no migration */
    kvr_store_wait_fn *wait;
    void *wait_ctx;
    struct kvr_checksums checksums;
};

/* State of a file: empty; of an earlier version, or of this one before a setting existed;
 * current. */
enum kvr_sql_form { KVR_FORM_EMPTY, KVR_FORM_OLDER, KVR_FORM_OURS };

/* Status of the connection's last error, with `what` and the path in the message. */
enum kvr_status kvr_sql_fail(sqlite3 *db, const char *path, const char *what);

/* KVR_ESCHEMA: another program's file, a later version, or an unknown setting. `version` may be
 * NULL. */
enum kvr_status kvr_sql_check_version(sqlite3 *db, const char *path, enum kvr_sql_form *form,
                                      int64_t *version);

/* Creates the table `cell`, "cell" or "temp.cell", and its indexes; schema: "" or "temp.". */
enum kvr_status kvr_sql_create_cell(sqlite3 *db, const char *path, const char *schema);
enum kvr_status kvr_sql_create_cell_indexes(sqlite3 *db, const char *path, const char *schema);
/* Creates the tables added since version 5 if missing; schema: "" or "temp.". */
enum kvr_status kvr_sql_create_since_5(sqlite3 *db, const char *path, const char *schema);
/* Copies rows of the table `from` into the table `cell` of `to_schema`. */
enum kvr_status kvr_sql_copy_cells(sqlite3 *db, const char *path, const char *from_schema,
                                   const char *from, const char *to_schema);

/* Migrates an older schema in one transaction; keeps a backup copy (s->copy). */
enum kvr_status kvr_sql_migrate(struct kvr_store *s, int64_t version);
/* For a read-only connection: a temporary `cell` with this version's columns. */
enum kvr_status kvr_sql_read_older(sqlite3 *db, const char *path);
/* Opens for reading; in a read-only folder no other files are needed or created. `*frozen` (may be
 * NULL): opened as immutable. *db is NULL on failure. KVR_ENOTFOUND, KVR_ESCHEMA. */
enum kvr_status kvr_sql_open_readonly(sqlite3 **db, const char *path, bool *frozen);
/* Copies the committed content into a new file. */
enum kvr_status kvr_sql_copy_database(sqlite3 *from, const char *to_path);

/* Creates the views in the database, or as temporary ones that hide the database's own. */
enum kvr_status kvr_sql_create_views(sqlite3 *db, const char *path, bool for_this_connection);
/* Creates the views as temporary ones, with cells_wide restricted to the rows that satisfy `where`
 * (NULL: all). KVR_EINVAL if it is not a condition. */
enum kvr_status kvr_sql_create_views_where(sqlite3 *db, const char *path, const char *where);

/* Runs one or several statements without results. */
enum kvr_status kvr_sql_exec(struct kvr_store *s, const char *sql, const char *what);

/* Ends a transaction: COMMIT, or ROLLBACK if `st` or the commit fails. */
enum kvr_status kvr_sql_end(struct kvr_store *s, enum kvr_status st, const char *what);

/* Prepare and bind: `types` has one letter per parameter: t text (NULL pointer: NULL), i int64, d
 * double (NaN: NULL), n NULL without argument, x int64 stored as NULL. Texts are not copied, so
 * binding cannot fail; they must live until the statement has been stepped. */
enum kvr_status kvr_sql_prepare(struct kvr_store *s, sqlite3_stmt **out, const char *sql);
void kvr_sql_bind(sqlite3_stmt *q, const char *types, ...);

/* Text of the current row of `q`, NULL for NULL; borrowed until the next step. KVR_ENOMEM if SQLite
 * cannot allocate the terminated copy. */
enum kvr_status kvr_sql_text(sqlite3_stmt *q, int column, const char **out);

/* Runs a bound statement without results and resets it. */
enum kvr_status kvr_sql_step(struct kvr_store *s, sqlite3_stmt *q, const char *what);

#endif
