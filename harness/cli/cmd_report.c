/* cmd_report.c - `kvreel report`: the tables of a database. */
#include <stdlib.h>

#include "harness/cli/cli.h"
#include "harness/core/outfile.h"
#include "harness/report/report.h"

struct report_opts {
    const char *db, *table, *format, *out;
    bool list;
};

static int list_tables(void)
{
    for (const struct kvr_report *r = kvr_reports; r->name; r++)
        printf("%-12s %s\n", r->name, r->title);
    return KVR_EXIT_OK;
}

/* Whole or not at all, so that a document never includes half a table. */
static enum kvr_status write_file(const struct kvr_table *t, enum kvr_table_format format,
                                  const char *path)
{
    struct kvr_out *out;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    enum kvr_status st;

    if (!f)
        return kvr_fail(KVR_ENOMEM, "report: no memory");
    st = kvr_table_write(t, format, f);
    fclose(f);
    if (st == KVR_OK)
        st = kvr_out_open(&out, path);
    if (st == KVR_OK) {
        st = kvr_out_write(out, text, n);
        if (st == KVR_OK)
            st = kvr_out_commit(&out);
        else
            kvr_out_drop(&out);
    }
    free(text);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct report_opts *o = call->opts;
    enum kvr_table_format format;
    struct kvr_table *t;
    enum kvr_status st;
    int code = KVR_EXIT_OK;

    if (o->list)
        return list_tables();
    st = kvr_table_format_parse(o->format, &format);
    if (st == KVR_OK)
        st = kvr_report_table(&t, o->db, o->table);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (o->out)
        st = write_file(t, format, o->out);
    else
        code = kvr_cli_wrote(kvr_table_write(t, format, stdout), KVR_EXIT_OK);
    kvr_table_close(&t);
    return st == KVR_OK ? code : kvr_cli_fail(st);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct report_opts, db, "db", 0, "FILE", "kvreel.db", "database"),
    KVR_ARG_TEXT(struct report_opts, table, "table", 't', "NAME", "summary", "which table"),
    KVR_ARG_TEXT(struct report_opts, format, "format", 'f', "FORMAT", "txt",
                 "txt, md, csv, json or latex"),
    KVR_ARG_TEXT(struct report_opts, out, "out", 'o', "FILE", NULL, "default: stdout"),
    KVR_ARG_FLAG(struct report_opts, list, "list", 'l', "the tables there are"),
    { 0 },
};

const struct kvr_command kvr_command_report = {
    .name = "report",
    .summary = "tables for people and papers",
    .usage = "[--table NAME] [--format FORMAT] [options]",
    .examples = "  kvreel report\n"
                "  kvreel report --db out/demo/demo.db --format md\n"
                "  kvreel report --table summary --format latex -o table2.tex\n",
    .args = args,
    .opts_size = sizeof(struct report_opts),
    .max_words = 0,
    .run = run,
};
