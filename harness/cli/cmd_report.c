/* cmd_report.c - `kvreel report`: writes a database's tables, and a page for the browser. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/report/page/board.h"
#include "harness/report/cost.h"
#include "harness/report/page/html.h"
#include "harness/report/report.h"
#include "harness/store/check.h"

struct report_opts {
    const char *db, *table, *measured, *format, *out, *media, *title, *board, *rank_by;
    double cap_mb;
    bool list, single_file;
};

static int list_tables(void)
{
    int width = 0;

    for (const struct kvr_report *r = kvr_reports; r->name; r++)
        width = (int)strlen(r->name) > width ? (int)strlen(r->name) : width;
    for (const struct kvr_report *r = kvr_reports; r->name; r++)
        printf("%-*s  %s\n", width, r->name, r->title);
    return KVR_EXIT_OK;
}

/* Writes a file atomically, so that a document never includes half a table. */
static enum kvr_status write_file(const struct kvr_table *t, enum kvr_table_format format,
                                  const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = kvr_text_open(&text, &n);
    enum kvr_status st;

    if (!f)
        return kvr_fail(KVR_ENOMEM, "report: out of memory while writing %s", path);
    st = kvr_table_write(t, format, f);
    if (!kvr_text_close(f, &text) && st == KVR_OK)
        st = kvr_fail(KVR_ENOMEM, "report: out of memory while writing %s", path);
    if (st == KVR_OK)
        st = kvr_out_save(path, text, n);
    free(text);
    return st;
}

static int write_page(const struct report_opts *o)
{
    const struct kvr_html_options options = {
        .media_dir = o->media,
        .title = o->title,
        .single_file = o->single_file,
        .cap_bytes = (int64_t)(o->cap_mb * 1e6),
    };
    struct kvr_html_result r;
    enum kvr_status st = kvr_html_write(o->db, o->out ? o->out : "report", &options, &r);

    if (st != KVR_OK)
        return kvr_cli_fail(st);
    printf("%s\n", r.path);
    fprintf(stderr, "%d cells, %d videos%s, %.1f MB\n", r.n_cells, r.n_videos,
            o->single_file ? " in the page" : " in assets/", (double)r.bytes / 1e6);
    if (r.n_gone)
        fprintf(stderr,
                "kvreel: report: %d videos omitted: not found in %s; give the sweep's out folder "
                "with --media DIR\n",
                r.n_gone, o->media ? o->media : "the folder that the database names");
    if (r.n_other)
        fprintf(stderr,
                "kvreel: report: %d videos omitted: their files changed after the measurement; the "
                "page states for each file what changed\n",
                r.n_other);
    if (r.n_no_room)
        fprintf(stderr, "kvreel: report: %d videos omitted: the page would exceed %g MB (--cap)\n",
                r.n_no_room, o->cap_mb);
    return KVR_EXIT_OK;
}

static int write_board(const struct report_opts *o, const struct kvr_call *call)
{
    const char *const own[] = { o->db, NULL };
    struct kvr_board_result r;
    const enum kvr_status st =
        kvr_board_write(call->n_words ? call->words : own, o->board, o->rank_by, &r);

    if (st != KVR_OK)
        return kvr_cli_fail(st);
    printf("%s/index.html\n", o->board);
    fprintf(stderr,
            "leaderboard: %d rows, one per method and combination of model, settings and machine; "
            "%d such combinations; %d input files\n",
            r.n_rows, r.n_places, r.n_sources);
    if (r.n_shared)
        fprintf(stderr,
                "kvreel: report: %d cells are in several files and count once; the values of %d of "
                "these cells differ between files\n",
                r.n_shared, r.n_different);
    return KVR_EXIT_OK;
}

static void say_why_empty(const char *name, const char *db)
{
    const struct kvr_report *r = kvr_reports;

    while (strcmp(r->name, name) != 0)
        r++;
    fprintf(stderr, "kvreel: report: table '%s' has no rows: ", name);
    if (r->empty)
        fprintf(stderr, "in %s %s\n", db, r->empty);
    else
        fprintf(stderr, "no finished cell in database %s has values for this table\n", db);
}

/* Makes the requested table from the database, or from the CSV files in results/measured. */
static enum kvr_status make_table(struct kvr_table **t, const struct report_opts *o,
                                  enum kvr_table_format format)
{
    enum kvr_status st;

    if (!o->measured)
        return kvr_report_table(t, o->db, o->table ? o->table : "summary");
    if (o->table && strcmp(o->table, "cost") != 0)
        return kvr_fail(
            KVR_EINVAL,
            "report: --measured %s has only the table 'cost'; table '%s' needs --db FILE",
            o->measured, o->table);
    st = kvr_report_cost_card(t, o->measured);
    if (st == KVR_OK &&
        (format == KVR_TABLE_TEXT || format == KVR_TABLE_MD || format == KVR_TABLE_LATEX))
        st = kvr_table_fold(*t, kvr_cost_card_fold);
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
    if (o->board)
        return write_board(o, call);
    if (call->n_words)
        return kvr_cli_fail(kvr_fail(
            KVR_EINVAL,
            "report: '%s': only --board DIR accepts files; use --db FILE for a table or page",
            call->words[0]));
    st = o->measured ? KVR_OK : kvr_store_check_intact(o->db);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (!o->measured && (o->single_file || (o->out && !o->table && !o->format)))
        return write_page(o);
    st = kvr_table_format_parse(o->format ? o->format : "txt", &format);
    if (st == KVR_OK)
        st = make_table(&t, o, format);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (t->n_rows == 0 && o->measured)
        fprintf(
            stderr,
            "kvreel: report: --measured %s: this folder has no rollouts, so the table is empty\n",
            o->measured);
    else if (t->n_rows == 0)
        say_why_empty(o->table ? o->table : "summary", o->db);
    if (o->out)
        st = write_file(t, format, o->out);
    else
        code = kvr_cli_wrote(kvr_table_write(t, format, stdout), KVR_EXIT_OK);
    kvr_table_close(&t);
    return st == KVR_OK ? code : kvr_cli_fail(st);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct report_opts, db, "db", 0, "FILE", "kvreel.db", "database of results"),
    KVR_ARG_TEXT(struct report_opts, table, "table", 't', "NAME", NULL,
                 "table to print (--list lists the names); the default is summary"),
    KVR_ARG_TEXT(
        struct report_opts, measured, "measured", 0, "GPU|DIR", NULL,
        "print table cost from folder results/measured/GPU, or from folder DIR, instead of a "
        "database"),
    KVR_ARG_TEXT(
        struct report_opts, format, "format", 'f', "FORMAT", NULL,
        "output format of a table: txt, md, csv, json, jsonl or latex; the default is txt"),
    KVR_ARG_TEXT(
        struct report_opts, out, "out", 'o', "FILE|DIR", NULL,
        "output file of a table (the default is stdout); without --table: folder of the page"),
    KVR_ARG_FLAG(
        struct report_opts, single_file, "single-file", 0,
        "write the page as a single file, with as many embedded videos as fit within --cap"),
    KVR_ARG_REAL(struct report_opts, cap_mb, "cap", 0, "MB", "10", 0.5, 1000,
                 "size limit of the single-file page, in MB, 0.5 to 1000"),
    KVR_ARG_TEXT(struct report_opts, media, "media", 0, "DIR", NULL,
                 "out folder of the sweep, which has the videos; the default is the folder that "
                 "the database names, else a folder next to the database"),
    KVR_ARG_TEXT(struct report_opts, title, "title", 0, "TEXT", NULL,
                 "title of the page; the default is the names of the sweeps"),
    KVR_ARG_TEXT(struct report_opts, board, "board", 0, "DIR", NULL,
                 "write a leaderboard of several databases (*.db) or result packages (*.kvresult) "
                 "into folder DIR"),
    KVR_ARG_TEXT(struct report_opts, rank_by, "rank-by", 0, "METRIC", "psnr",
                 "metric by which the leaderboard ranks methods"),
    KVR_ARG_FLAG(struct report_opts, list, "list", 'l',
                 "list the names and titles of the tables, then exit"),
    { 0 },
};

const struct kvr_command kvr_command_report = {
    .name = "report",
    .summary = "print tables of results, or write a page for the browser",
    .usage =
        "[--table NAME] [--format FORMAT] | -o DIR [--single-file] | --board DIR FILE... [options]",
    .examples = "  kvreel report\n"
                "  kvreel report --db out/demo/demo.db --format md\n"
                "  kvreel report --db out/demo/demo.db -o report   # report/index.html\n"
                "  kvreel report --board board a.db b.kvresult     # board/index.html, board.json\n"
                "  kvreel report --table summary --format latex -o table2.tex\n"
                "  kvreel report --table cost --measured h100\n",
    .args = args,
    .opts_size = sizeof(struct report_opts),
    .max_words = 4096,
    .run = run,
};
