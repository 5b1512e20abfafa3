/* sql.h - what the files of the store share: SQLite's errors as statuses, binding, helpers. */
#ifndef KVR_STORE_SQL_H
#define KVR_STORE_SQL_H

#include <sqlite3.h>
#include <stdint.h>

#include "harness/store/store.h"

struct kvr_store {
    sqlite3 *db;
    char *path;
};

/* The status of the connection's last error, with `what` and the path in the message. */
enum kvr_status kvr_sql_fail(sqlite3 *db, const char *path, const char *what);

/* Is this file a kvreel database of this version? KVR_ESCHEMA says both versions. An empty
 * file is *empty and KVR_OK. */
enum kvr_status kvr_sql_check_version(sqlite3 *db, const char *path, bool *empty);

/* The views, in the database or for this connection alone, where they hide the database's own. */
enum kvr_status kvr_sql_create_views(sqlite3 *db, const char *path, bool for_this_connection);

/* One statement or several, without results. */
enum kvr_status kvr_sql_exec(struct kvr_store *s, const char *sql, const char *what);

/* Prepare and bind: `types` has a letter per parameter, t text (NULL pointer: NULL), i int64,
 * d double (NaN: NULL), n a NULL without argument, x an int64 that is not to be kept (NULL). */
enum kvr_status kvr_sql_prepare(struct kvr_store *s, sqlite3_stmt **out, const char *sql);
void kvr_sql_bind(sqlite3_stmt *q, const char *types, ...);

/* Run a bound statement that gives no rows, and make it ready for the next binding. */
enum kvr_status kvr_sql_step(struct kvr_store *s, sqlite3_stmt *q, const char *what);

#endif
