/* schema.c - the database schema. Each measured value is a row of its own in a table; views show
 * one row per cell.
 *
 * A number that can be missing is NULL, and a column of the same row has the reason. Cells are
 * keyed by a hash of their spec, so that databases of shards can be merged. Tables are in
 * sql/schema.sql and sql/cell.sql, views in sql/view_NAME.sql. */
#include "harness/store/statement.h"
#include "harness/store/store.h"

const char *const kvr_store_cell_index[][2] = {
    { "cell_method", "cell(model, method)" },
    { "cell_baseline", "cell(baseline)" },
    { "cell_rollout", "cell(rollout)" },
    { "cell_run", "cell(run)" },
    { NULL, NULL },
};

#define VIEW(name) KVR_STATEMENT(view_##name);
#include "harness/store/views.def"
#undef VIEW

const struct kvr_store_view kvr_store_views[] = {
#define VIEW(name) { #name, kvr_statement_view_##name },
#include "harness/store/views.def"
#undef VIEW
    { NULL, NULL },
};

/* Tables added in version 5. They are separate, so that a migration can create the missing ones. */
#define TABLE(name) KVR_STATEMENT(since5_##name);
#include "harness/store/since5.def"
#undef TABLE

const char *const kvr_store_since_5[][2] = {
#define TABLE(name) { #name, kvr_statement_since5_##name },
#include "harness/store/since5.def"
#undef TABLE
    { NULL, NULL },
};
