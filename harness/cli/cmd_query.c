/* cmd_query.c - `kvreel query`: runs read-only SQL on a database of results. */
#include <errno.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/report/table/table.h"
#include "harness/store/check.h"

struct query_opts {
    const char *db;
    bool json, jsonl, csv, md, raw, check;
    int timeout_s, memory_mib;
};

/* Writes unescaped text, such as a config: no header, newlines between rows, tabs between
 * columns. */
static enum kvr_status write_raw(const struct kvr_table *t, FILE *to)
{
    for (int r = 0; r < t->n_rows; r++)
        for (int c = 0; c < t->n_columns; c++) {
            const struct kvr_value *v = kvr_table_at(t, r, c);

            if (v->type == KVR_VALUE_INT)
                fprintf(to, "%lld", (long long)v->i);
            else if (v->type == KVR_VALUE_REAL)
                fprintf(to, "%.17g", v->r);
            else if (v->type != KVR_VALUE_NULL)
                fwrite(v->text, 1, (size_t)v->n_bytes, to);
            fputc(c + 1 < t->n_columns ? '\t' : '\n', to);
        }
    return fflush(to) == 0 && !ferror(to) ? KVR_OK
                                          : kvr_fail(KVR_EIO, "stdout: %s", strerror(errno));
}

static int run(const struct kvr_call *call)
{
    const struct query_opts *o = call->opts;
    enum kvr_table_format format = o->json    ? KVR_TABLE_JSON
                                   : o->jsonl ? KVR_TABLE_JSONL
                                   : o->csv   ? KVR_TABLE_CSV
                                   : o->md    ? KVR_TABLE_MD
                                              : KVR_TABLE_TEXT;
    const struct kvr_query_limits limits = { .seconds = o->timeout_s,
                                             .bytes = (int64_t)o->memory_mib << 20 };
    struct kvr_table *t;
    enum kvr_status st;

    if (o->json + o->jsonl + o->csv + o->md + o->raw > 1)
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL,
                     "query: --json, --jsonl, --csv, --md and --raw cannot be combined; use one"));
    st = o->check ? kvr_store_check_intact(o->db) : KVR_OK;
    if (st == KVR_OK)
        st = kvr_table_query_within(&t, o->db, call->words[0], &limits);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (t->n_rows == 0)
        fprintf(stderr, "kvreel: query: the result has 0 rows\n");
    if (!o->raw && (format == KVR_TABLE_TEXT || format == KVR_TABLE_MD))
        st = kvr_table_mib(t);
    if (st == KVR_OK)
        st = o->raw ? write_raw(t, stdout) : kvr_table_write(t, format, stdout);
    kvr_table_close(&t);
    return kvr_cli_wrote(st, KVR_EXIT_OK);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct query_opts, db, "db", 0, "FILE", "kvreel.db", "database of results"),
    KVR_ARG_FLAG(struct query_opts, json, "json", 0, "print rows as a JSON array of objects"),
    KVR_ARG_FLAG(struct query_opts, jsonl, "jsonl", 0, "print rows as JSON objects, one per line"),
    KVR_ARG_FLAG(struct query_opts, csv, "csv", 0, "print rows as CSV with a header line"),
    KVR_ARG_FLAG(struct query_opts, md, "md", 0, "print rows as a Markdown table"),
    KVR_ARG_FLAG(struct query_opts, raw, "raw", 0,
                 "print values unescaped and without a header, for example the text of a config"),
    KVR_ARG_TIME(struct query_opts, timeout_s, "timeout", 0, "TIME", "60", 0, 86400,
                 "time limit of the query, in seconds or with a unit as in 30m; 0 means no limit"),
    KVR_ARG_INT(struct query_opts, memory_mib, "memory", 0, "MIB", "1024", 0, 1048576,
                "memory limit of the query's result, in MiB; 0 means no limit"),
    KVR_ARG_FLAG(struct query_opts, check, "check", 0,
                 "verify the database's checksums first, as kvreel fsck does"),
    { 0 },
};

const struct kvr_command kvr_command_query = {
    .name = "query",
    .summary = "query a database of results with read-only SQL",
    .usage = "'SQL' [options]",
    .examples = "  kvreel query 'SELECT * FROM summary'\n"
                "  kvreel query --md 'SELECT method, avg(ssim) FROM cells_wide GROUP BY method'\n"
                "  kvreel query --db out/demo/demo.db --json \"SELECT * FROM failures\"\n",
    .details =
        "Other programs can read the output of --jsonl; tools/to-parquet.py converts it, or a\n"
        "whole database, to Parquet.\n"
        "Text and Markdown output shows the columns named ..._bytes, and at_peak, tag_peak\n"
        "and live_end of table mem, in MiB. SQL, CSV and JSON have bytes, for example in\n"
        "WHERE peak_bytes < 64 * 1048576.\n"
        "In CSV output, text that a spreadsheet would execute (it begins with =, +, - or @)\n"
        "gets a leading apostrophe.\n"
        "To list tables and views, run `kvreel query \"SELECT name, type FROM\n"
        "sqlite_schema\"`.\n",
    .args = args,
    .opts_size = sizeof(struct query_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
