/* sql.h - what the files of the store share: SQLite's errors as statuses, binding, helpers. */
#ifndef KVR_STORE_SQL_H
#define KVR_STORE_SQL_H

#include <sqlite3.h>
#include <stdint.h>

#include "harness/store/seal.h"
#include "harness/store/store.h"

struct kvr_store {
    sqlite3 *db;
    char *path;
    bool has_tables;
    char *copy; /* of it as it was before it was brought to this version; NULL: it was not */
    kvr_store_wait_fn *wait;
    void *wait_ctx;
    struct kvr_sealer sealer;
};

/* What a file is: empty; of an earlier version, or of this one before a setting was there; ours. */
enum kvr_sql_form { KVR_FORM_EMPTY, KVR_FORM_OLDER, KVR_FORM_OURS };

/* The status of the connection's last error, with `what` and the path in the message. */
enum kvr_status kvr_sql_fail(sqlite3 *db, const char *path, const char *what);

/* KVR_ESCHEMA: another program's, or of a later version, or with a setting that is not known here.
 * `version` may be NULL. */
enum kvr_status kvr_sql_check_version(sqlite3 *db, const char *path, enum kvr_sql_form *form,
                                      int64_t *version);

/* The table `cell`, "cell" or "temp.cell", and its indexes; schema: "" or "temp.". */
enum kvr_status kvr_sql_create_cell(sqlite3 *db, const char *path, const char *schema);
enum kvr_status kvr_sql_create_cell_indexes(sqlite3 *db, const char *path, const char *schema);
/* The tables that came with version 5, where they are not there; schema: "" or "temp.". */
enum kvr_status kvr_sql_create_since_5(sqlite3 *db, const char *path, const char *schema);
/* Rows of the table `from` into the table `cell` of `to_schema`. */
enum kvr_status kvr_sql_copy_cells(sqlite3 *db, const char *path, const char *from_schema,
                                   const char *from, const char *to_schema);

/* Brings an older database to this version, all or nothing, after copying it to s->copy. */
enum kvr_status kvr_sql_migrate(struct kvr_store *s, int64_t version);
/* For a connection that only reads: its `cell` is a temporary one with the columns of this
 * version. */
enum kvr_status kvr_sql_read_older(sqlite3 *db, const char *path);
/* For reading alone: nothing beside the file is needed or made where its folder cannot be written.
 * `*frozen` (may be NULL): SQLite reads the file as one that nobody changes. *db is NULL on
 * failure. KVR_ENOTFOUND, KVR_ESCHEMA. */
enum kvr_status kvr_sql_open_readonly(sqlite3 **db, const char *path, bool *frozen);
/* What is committed, into a new file. */
enum kvr_status kvr_sql_copy_database(sqlite3 *from, const char *to_path);

/* The views, in the database or for this connection alone, where they hide the database's own. */
enum kvr_status kvr_sql_create_views(sqlite3 *db, const char *path, bool for_this_connection);
/* The same for this connection, but cells_wide has the rows alone that `where` holds for (NULL:
 * all). KVR_EINVAL when it is not a condition. */
enum kvr_status kvr_sql_create_views_where(sqlite3 *db, const char *path, const char *where);

/* One statement or several, without results. */
enum kvr_status kvr_sql_exec(struct kvr_store *s, const char *sql, const char *what);

/* The end of a transaction: COMMIT, or ROLLBACK where `st` or that is not KVR_OK. */
enum kvr_status kvr_sql_end(struct kvr_store *s, enum kvr_status st, const char *what);

/* Prepare and bind: `types` has a letter per parameter, t text (NULL pointer: NULL), i int64,
 * d double (NaN: NULL), n a NULL without argument, x an int64 that is not to be kept (NULL). Texts
 * are not copied, so binding cannot fail: they must live until the statement has been stepped. */
enum kvr_status kvr_sql_prepare(struct kvr_store *s, sqlite3_stmt **out, const char *sql);
void kvr_sql_bind(sqlite3_stmt *q, const char *types, ...);

/* A text of the row that `q` stands at, NULL of a NULL; lent until the next step. SQLite copies it to end
 * it with a zero: without memory for that it is NULL as well, and this is KVR_ENOMEM. */
enum kvr_status kvr_sql_text(sqlite3_stmt *q, int column, const char **out);

/* Run a bound statement that gives no rows, and make it ready for the next binding. */
enum kvr_status kvr_sql_step(struct kvr_store *s, sqlite3_stmt *q, const char *what);

#endif
