/* cmd_query.c - `kvreel query`: read-only SQL on a database of results. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/rows.h"
#include "harness/store/store.h"

struct query_opts {
    const char *db;
    bool json, csv, md;
};

struct sink {
    const struct query_opts *opts;
    json_t *list; /* --json */
    struct kvr_rows rows;
    bool begun;
};

static char *number(char *buf, size_t n, const struct kvr_value *v)
{
    if (v->type == KVR_VALUE_INT)
        snprintf(buf, n, "%lld", (long long)v->i);
    else
        snprintf(buf, n, "%.6g", v->r);
    return buf;
}

static json_t *json_value(const struct kvr_value *v)
{
    json_t *j = NULL;

    switch (v->type) {
    case KVR_VALUE_INT:
        return json_integer(v->i);
    case KVR_VALUE_REAL:
        return isfinite(v->r) ? json_real(v->r) : json_null();
    case KVR_VALUE_TEXT:
        j = json_stringn(v->text, (size_t)v->n_bytes);
        break;
    case KVR_VALUE_NULL:
        break;
    case KVR_VALUE_BLOB:
        return json_sprintf("<%d bytes>", v->n_bytes);
    }
    return j ? j : json_null(); /* text that is not UTF-8 cannot be JSON */
}

static int json_row(struct sink *s, int n, const char *const *names, const struct kvr_value *row)
{
    json_t *o = json_object();

    for (int i = 0; i < n; i++) {
        char name[128];

        /* A join may give a name twice: the second becomes NAME_2. */
        snprintf(name, sizeof name, "%s", names[i]);
        for (int k = 2; json_object_get(o, name); k++)
            snprintf(name, sizeof name, "%.100s_%d", names[i], k);
        json_object_set_new(o, name, json_value(&row[i]));
    }
    return json_array_append_new(s->list, o);
}

static int text_row(struct sink *s, int n, const struct kvr_value *row)
{
    const char **cells = calloc((size_t)n + 1, sizeof *cells);
    char(*buf)[40] = calloc((size_t)n + 1, sizeof *buf);

    if (!cells || !buf) {
        free(cells);
        free(buf);
        s->rows.failed = true;
        return 1;
    }
    for (int i = 0; i < n; i++) {
        switch (row[i].type) {
        case KVR_VALUE_NULL:
            cells[i] = s->opts->csv ? NULL : "-";
            break;
        case KVR_VALUE_TEXT:
            cells[i] = row[i].text;
            break;
        case KVR_VALUE_BLOB:
            snprintf(buf[i], sizeof buf[i], "<%d bytes>", row[i].n_bytes);
            cells[i] = buf[i];
            break;
        case KVR_VALUE_INT:
        case KVR_VALUE_REAL:
            cells[i] = number(buf[i], sizeof buf[i], &row[i]);
            break;
        }
    }
    kvr_rows_add(&s->rows, cells);
    free(cells);
    free(buf);
    return 0;
}

static int on_row(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    struct sink *s = ctx;

    if (s->opts->json)
        return row ? json_row(s, n, names, row) : 0;
    if (!row) {
        enum kvr_rows_format f = s->opts->csv  ? KVR_ROWS_CSV
                                 : s->opts->md ? KVR_ROWS_MD
                                               : KVR_ROWS_TEXT;

        kvr_rows_begin(&s->rows, f, n, names);
        s->begun = true;
        return 0;
    }
    return text_row(s, n, row);
}

static int run(const struct kvr_call *call)
{
    const struct query_opts *o = call->opts;
    struct sink s = { .opts = o };
    enum kvr_status st;

    if (o->json + o->csv + o->md > 1)
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL, "query: --json, --csv and --md exclude each other"));
    if (o->json)
        s.list = json_array();
    st = kvr_store_query(o->db, call->words[0], on_row, &s);
    if (o->json) {
        if (st == KVR_OK)
            return kvr_cli_json(s.list, KVR_EXIT_OK);
        json_decref(s.list);
        return kvr_cli_fail(st);
    }
    if (st != KVR_OK) {
        kvr_rows_drop(&s.rows);
        return kvr_cli_fail(st);
    }
    if (s.begun)
        st = kvr_rows_end(&s.rows);
    return st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct query_opts, db, "db", 0, "FILE", "kvreel.db", "database"),
    KVR_ARG_FLAG(struct query_opts, json, "json", 0, "rows as a JSON array of objects"),
    KVR_ARG_FLAG(struct query_opts, csv, "csv", 0, "rows as CSV with a header"),
    KVR_ARG_FLAG(struct query_opts, md, "md", 0, "rows as a Markdown table"),
    { 0 },
};

const struct kvr_command kvr_command_query = {
    .name = "query",
    .summary = "read-only SQL on the results",
    .usage = "'SQL' [options]",
    .examples = "  kvreel query 'SELECT * FROM summary'\n"
                "  kvreel query --md 'SELECT method, avg(ssim) FROM cells_wide GROUP BY method'\n"
                "  kvreel query --db out/demo/demo.db --json \"SELECT * FROM failures\"\n",
    .details = "Tables and views: `kvreel query \"SELECT name, type FROM sqlite_schema\"`.\n",
    .args = args,
    .opts_size = sizeof(struct query_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
