/* sql.h - SQLite helpers shared by the files of the store. */
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
    bool any_card; /* whether kvr_store_merge accepts timed cells of different GPUs */
    char *copy;    /* path of the backup made before migration (NULL: the database was not
                    * migrated) */
    kvr_store_wait_fn *wait;
    void *wait_ctx;
    struct kvr_checksums checksums;
};

/* State of the schema of a database file. EMPTY: the file has no tables. OLDER: the schema has an
 * earlier version, or the table `cell` lacks a column for a new setting. (A new setting adds a
 * column, but does not change the version.) OURS: the schema is current. */
enum kvr_sql_form { KVR_FORM_EMPTY, KVR_FORM_OLDER, KVR_FORM_OURS };

/* Returns the status for the last error of the connection `db`. The error message contains `path`
 * and `what`, the operation that failed. */
enum kvr_status kvr_sql_fail(sqlite3 *db, const char *path, const char *what);

/* Sets *form to the state of the database's schema, and *version to the schema's version; `version`
 * may be NULL. KVR_ESCHEMA: the file belongs to another program, its version is not in
 * KVR_STORE_OLDEST..KVR_STORE_VERSION, or it has a column for a setting that this program does not
 * know. */
enum kvr_status kvr_sql_check_version(sqlite3 *db, const char *path, enum kvr_sql_form *form,
                                      int64_t *version);

/* Creates the table `cell`. The argument `schema` is the table's name in the statement CREATE
 * TABLE: "cell", or "temp.cell" for a temporary table. */
enum kvr_status kvr_sql_create_cell(sqlite3 *db, const char *path, const char *schema);
/* Creates the indexes of the table `cell`. The argument `schema` is put before the name of each
 * index: "temp." if the table is temporary, otherwise "". */
enum kvr_status kvr_sql_create_cell_indexes(sqlite3 *db, const char *path, const char *schema);
/* Creates the tables that were added in version 5 or later, if they are missing. `schema` is the
 * prefix of the table names: "", or "temp." for temporary tables. */
enum kvr_status kvr_sql_create_since_5(sqlite3 *db, const char *path, const char *schema);
/* Copies the rows of the table `from` in `from_schema` to the table `cell` in `to_schema`. */
enum kvr_status kvr_sql_copy_cells(sqlite3 *db, const char *path, const char *from_schema,
                                   const char *from, const char *to_schema);

/* Copies the database to a backup file, whose path becomes s->copy. Then migrates the database from
 * schema version `version` to KVR_STORE_VERSION in one transaction. */
enum kvr_status kvr_sql_migrate(struct kvr_store *s, int64_t version);
/* Makes a database with an older schema readable without changing its file. Creates a temporary
 * table `cell` of the current schema and copies the rows of the stored table `cell` to it. Also
 * creates an empty temporary table for each table that the database lacks. */
enum kvr_status kvr_sql_read_older(sqlite3 *db, const char *path);
/* Opens a database read-only. In a read-only folder, the database is opened as immutable, so that
 * SQLite needs no lock or journal file. *frozen receives whether the database was opened as
 * immutable; `frozen` may be NULL. *db is NULL on failure. KVR_ENOTFOUND, KVR_ESCHEMA. */
enum kvr_status kvr_sql_open_readonly(sqlite3 **db, const char *path, bool *frozen);
/* Copies the committed content of a database to a new file. */
enum kvr_status kvr_sql_copy_database(sqlite3 *from, const char *to_path);

/* Creates the views in the database. If `for_this_connection` is true, the new views are temporary
 * and hide the stored views of the same names. */
enum kvr_status kvr_sql_create_views(sqlite3 *db, const char *path, bool for_this_connection);
/* Creates all views as temporary views. The SQL condition `where` (NULL: all rows) filters the rows
 * of the view cells_wide, and therefore also the rows of views based on it. KVR_EINVAL: `where` is
 * not an SQL condition on cells_wide. */
enum kvr_status kvr_sql_create_views_where(sqlite3 *db, const char *path, const char *where);

/* Runs one or several SQL statements that return no rows. */
enum kvr_status kvr_sql_exec(struct kvr_store *s, const char *sql, const char *what);

/* Ends a transaction with COMMIT, or with ROLLBACK if `st` is an error or the commit fails. */
enum kvr_status kvr_sql_end(struct kvr_store *s, enum kvr_status st, const char *what);

/* Prepares a statement. */
enum kvr_status kvr_sql_prepare(struct kvr_store *s, sqlite3_stmt **out, const char *sql);
/* Binds the parameters of a statement. `types` has one letter per parameter: t for text (a NULL
 * pointer becomes NULL), i for int64, d for double (NaN becomes NULL), n for NULL without an
 * argument. The letter x skips an int64 argument and binds NULL. Texts are not copied, so they must
 * live until the statement has been stepped. */
void kvr_sql_bind(sqlite3_stmt *q, const char *types, ...);

/* Sets *out to the text in a column of the current row, or NULL if the value is NULL. The text is
 * valid until the next step. If SQLite cannot allocate the text, the status is KVR_ENOMEM. */
enum kvr_status kvr_sql_text(sqlite3_stmt *q, int column, const char **out);

/* Runs a prepared statement that returns no rows, then resets it and clears its parameters. */
enum kvr_status kvr_sql_step(struct kvr_store *s, sqlite3_stmt *q, const char *what);

#endif
