/* cmd_pareto.c - `kvreel pareto`: prints the Pareto front for any objectives, and for every other
 * method a method that dominates it. */
#include "harness/cli/cli.h"
#include "harness/report/pareto/pareto.h"
#include "harness/report/report.h"
#include "harness/store/store.h"

struct pareto_opts {
    const char *db, *objectives, *margins, *bounds, *where, *format, *published;
    bool json, exact, front, list;
};

static int list_frontiers(void)
{
    for (const struct kvr_frontier *f = kvr_frontiers; f->name; f++)
        printf("%-12s %-32s %s\n", f->name, f->title, f->objectives);
    return KVR_EXIT_OK;
}

static int run(const struct kvr_call *call)
{
    const struct pareto_opts *o = call->opts;
    const struct kvr_pareto_options p = {
        .db_path = o->db,
        .published = o->published,
        .objectives = o->objectives,
        .margins = o->margins,
        .bounds = o->bounds,
        .where = o->where,
        .exact = o->exact,
        .front_only = o->front,
    };
    enum kvr_table_format format;
    struct kvr_table *t;
    enum kvr_status st = kvr_table_format_parse(o->json ? "json" : o->format, &format);
    int code;

    if (o->list)
        return list_frontiers();
    if (st == KVR_OK && o->published && o->where)
        st = kvr_fail(KVR_EINVAL,
                      "pareto: --where '%s' filters a database, so it cannot be combined with "
                      "--published %s; remove one of them",
                      o->where, o->published);
    if (st == KVR_OK && o->where)
        st = kvr_store_condition(o->db, "summary", o->where);
    if (st == KVR_OK)
        st = kvr_pareto(&t, &p);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (!o->published) {
        st = kvr_report_note_plan(t, o->db);
        if (st != KVR_OK) {
            kvr_table_close(&t);
            return kvr_cli_fail(st);
        }
    }
    code = kvr_cli_wrote(kvr_table_write(t, format, stdout), KVR_EXIT_OK);
    kvr_table_close(&t);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct pareto_opts, db, "db", 0, "FILE", "kvreel.db", "database of results"),
    KVR_ARG_TEXT(struct pareto_opts, objectives, "objectives", 0, "LIST",
                 "ssim:max,compression:max",
                 "comma-separated objectives NAME:max or NAME:min, where NAME is a metric or a "
                 "column of the view cells_wide; or the name of a set of objectives (see --list)"),
    KVR_ARG_TEXT(struct pareto_opts, margins, "margin", 0, "LIST", NULL,
                 "comma-separated non-inferiority margins NAME=VALUE: differences up to VALUE, in "
                 "the objective's unit, count as equal"),
    KVR_ARG_TEXT(struct pareto_opts, bounds, "bound", 0, "LIST", NULL,
                 "comma-separated bounds NAME>=VALUE or NAME<=VALUE: methods that violate a bound "
                 "cannot be on the Pareto front"),
    KVR_ARG_TEXT(struct pareto_opts, where, "where", 0, "SQL", NULL,
                 "SQL condition on the view `summary` that selects methods"),
    KVR_ARG_TEXT(
        struct pareto_opts, published, "published", 0, "SUITE", NULL,
        "use the numbers that the 33-method study published for suite moviegen or storyeval, "
        "instead of a database"),
    KVR_ARG_FLAG(
        struct pareto_opts, exact, "exact", 0,
        "ignore confidence intervals: every difference larger than the margin is significant"),
    KVR_ARG_FLAG(struct pareto_opts, front, "front", 0,
                 "omit dominated methods, and methods without a value in some objective"),
    KVR_ARG_FLAG(struct pareto_opts, list, "list", 'l',
                 "list the names of the 33-method study's four sets of objectives"),
    KVR_ARG_TEXT(struct pareto_opts, format, "format", 'f', "FORMAT", "txt",
                 "output format: txt, md, csv, json, jsonl or latex"),
    KVR_ARG_FLAG(struct pareto_opts, json, "json", 0, "print JSON, the same as --format json"),
    { 0 },
};

const struct kvr_command kvr_command_pareto = {
    .name = "pareto",
    .summary = "compute the Pareto front of methods, and which method dominates which",
    .usage = "[--objectives LIST] [--where SQL] [options]",
    .examples = "  kvreel pareto --db out/demo.db --objectives ssim:max,compression:max\n"
                "  kvreel pareto --db out/study33.db --objectives compression:max,runtime_s:min"
                " \\\n      --where 'peak_bytes < 22e6 AND ssim > 0.95'     # only these methods\n"
                "  kvreel pareto --db out/study33.db --objectives balanced --front\n"
                "  kvreel pareto --db out/study33.db --margin ssim=0.005\n"
                "  kvreel pareto --db out/study33.db --bound 'ssim>=0.9'  # no method below 0.9 on "
                "the front\n"
                "  kvreel pareto --published moviegen --objectives systems --front\n",
    .details =
        "Method A dominates B if two conditions hold significantly: in every objective, A is\n"
        "not worse than B by more than the objective's margin (--margin), and in at least one\n"
        "objective, A is better than B by more than the margin.\n"
        "A condition holds significantly if the confidence interval of paired differences over at\n"
        "least six shared prompts shows it; byte counts are exact and need no interval.\n"
        "A method is `undecided` if the intervals neither show nor rule out that another method\n"
        "dominates it. More noise in the data never makes a method dominated. A method that\n"
        "violates a --bound is listed, but cannot be on the front.\n",
    .args = args,
    .opts_size = sizeof(struct pareto_opts),
    .max_words = 0,
    .run = run,
};
