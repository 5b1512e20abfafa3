/* cmd_plot.c - `kvreel plot`: figures from a database. */
#include "harness/cli/cli.h"
#include "harness/report/curves.h"
#include "harness/report/plot.h"

struct plot_opts {
    const char *db, *out, *format;
    bool json, list;
};

static int list_plots(void)
{
    for (const struct kvr_plot_spec *p = kvr_plots; p->name; p++)
        printf("%-20s %s\n", p->name, p->title);
    for (const struct kvr_curves_spec *c = kvr_curves; c->name; c++)
        printf("%-20s %s\n", c->name, c->title);
    return KVR_EXIT_OK;
}

static int run(const struct kvr_call *call)
{
    const struct plot_opts *o = call->opts;
    const char *name = call->n_words ? call->words[0] : "pareto";
    struct kvr_plot_result r = { 0 };
    unsigned formats;
    enum kvr_status st = kvr_plot_formats_parse(o->format, &formats);

    if (o->list)
        return list_plots();
    if (st == KVR_OK)
        st = kvr_plot(o->db, name, o->out, formats, &r);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (r.warning[0])
        fprintf(stderr, "kvreel: plot: %s\n", r.warning);
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:s, s:i, s:i, s:i, s:b, s:s}", "plot", name, "out",
                                      o->out, "figures", r.n_figures, "rows", r.n_rows, "left_out",
                                      r.n_left_out, "drawn", r.drawn, "warning", r.warning),
                            KVR_EXIT_OK);
    printf("%s/%s: %d figure%s of %d rows, %d left out\n", o->out, name, r.n_figures,
           r.n_figures == 1 ? "" : "s", r.n_rows, r.n_left_out);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct plot_opts, db, "db", 0, "FILE", "kvreel.db", "database"),
    KVR_ARG_TEXT(struct plot_opts, out, "out", 'o', "DIR", "out/plots", "where the files go"),
    KVR_ARG_TEXT(struct plot_opts, format, "format", 'f', "LIST", "svg,png", "svg, png, pdf"),
    KVR_ARG_FLAG(struct plot_opts, list, "list", 'l', "the figures there are"),
    KVR_ARG_FLAG(struct plot_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_plot = {
    .name = "plot",
    .summary = "figures: a gnuplot script, its data, and pictures",
    .usage = "[NAME] [options]",
    .examples = "  kvreel plot pareto\n"
                "  kvreel plot --list\n"
                "  kvreel plot drift --db out/demo/demo.db -o figures\n"
                "  gnuplot figures/pareto.gp            # after editing the script\n",
    .details = "Without gnuplot the script and the data are written all the same.\n",
    .args = args,
    .opts_size = sizeof(struct plot_opts),
    .max_words = 1,
    .run = run,
};
