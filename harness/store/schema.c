/* schema.c - the database. Long tables hold what was measured; views give the wide ones.
 *
 * Every number that can be missing is NULL with a reason beside it. Cells are keyed by a hash
 * of their spec, so that databases of shards can be joined. The tables are sql/schema.sql and
 * sql/cell.sql, the views sql/view_NAME.sql. */
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

/* What came with version 5. These stand alone, so that an older database is brought to it by making
 * what it does not have. */
#define TABLE(name) KVR_STATEMENT(since5_##name);
#include "harness/store/since5.def"
#undef TABLE

const char *const kvr_store_since_5[][2] = {
#define TABLE(name) { #name, kvr_statement_since5_##name },
#include "harness/store/since5.def"
#undef TABLE
    { NULL, NULL },
};
