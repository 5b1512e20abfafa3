/* cmd_plot.c - `kvreel plot`: draws figures from a database. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/report/cost.h"
#include "harness/report/plot/cost_plot.h"
#include "harness/report/plot/curves.h"
#include "harness/report/plot/forest.h"
#include "harness/report/plot/plot.h"

struct plot_opts {
    const char *db, *out, *ledger, *measured, *format, *where, *bounds, *metric, *x, *y, *title,
        *preset, *width, *bars;
    double font;
    bool json, list;
};

static int list_plots(void)
{
    for (const struct kvr_plot_spec *p = kvr_plots; p->name; p++)
        printf("%-20s %s\n", p->name, p->title);
    for (const struct kvr_curves_spec *c = kvr_curves; c->name; c++)
        printf("%-20s %s\n", c->name, c->title);
    printf("%-20s %s\n", "claims",
           "Claims of papers: measured difference, its confidence interval, margin and published "
           "value");
    return KVR_EXIT_OK;
}

/* Parses a width such as "85mm" or "3.35in"; a number without unit is in inches. */
static enum kvr_status parse_width(const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);

    if (strcmp(end, "mm") == 0)
        v /= 25.4;
    else if (*end && strcmp(end, "in") != 0)
        v = 0;
    if (!(v >= 2.0 && v <= 40.0))
        return kvr_fail(
            KVR_EINVAL,
            "plot: --width '%s': need 2in to 40in (51mm to 1016mm), such as 3.35in or 85mm", text);
    *out = v;
    return KVR_OK;
}

/* Default widths on paper: one column (85 mm) or two (178 mm). */
static enum kvr_status read_style(const struct plot_opts *o, struct kvr_plot_style *s)
{
    *s = (struct kvr_plot_style){ .font_pt = o->font,
                                  .title = o->title,
                                  .where = o->where,
                                  .bounds = o->bounds,
                                  .x = o->x,
                                  .y = o->y ? o->y : o->metric };
    if (o->y && o->metric)
        return kvr_fail(KVR_EINVAL,
                        "plot: --metric %s and --y %s both select the metric of the y axis; give "
                        "only one of them",
                        o->metric, o->y);
    if (strcmp(o->bars, "none") == 0)
        s->no_bars = true;
    else if (strcmp(o->bars, "ci") != 0)
        return kvr_fail(KVR_EINVAL, "plot: --bars '%s': need ci (confidence intervals) or none",
                        o->bars);
    if (o->preset && strcmp(o->preset, "single") == 0)
        s->width_in = 85 / 25.4;
    else if (o->preset && strcmp(o->preset, "double") == 0)
        s->width_in = 178 / 25.4;
    else if (o->preset)
        return kvr_fail(KVR_EINVAL,
                        "plot: --preset '%s': need single (one column of a paper, 85 mm) or double "
                        "(two, 178 mm)",
                        o->preset);
    return o->width ? parse_width(o->width, &s->width_in) : KVR_OK;
}

/* Draws a forest plot of the claims in a ledger, the YAML file of the papers' claims, instead of a
 * table. */
static enum kvr_status plot_claims(const struct plot_opts *o, unsigned formats,
                                   const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    struct kvr_ledger l = { 0 };
    enum kvr_status st = kvr_claims(&l, o->ledger, o->db, &(struct kvr_claims_options){ 0 });

    if (st == KVR_OK)
        st = kvr_forest(&l, o->out, formats, style, r);
    kvr_ledger_free(&l);
    return st;
}

/* Draws the figure from the CSV files in results/measured instead of a database. */
static enum kvr_status plot_measured(const struct plot_opts *o, const char *name, unsigned formats,
                                     const struct kvr_plot_style *style, struct kvr_plot_result *r)
{
    struct kvr_table *t = NULL;
    enum kvr_status st;

    if (strcmp(name, "cost") != 0)
        return kvr_fail(
            KVR_EINVAL,
            "plot: --measured %s can draw figure 'cost' only; figure '%s' needs --db FILE",
            o->measured, name);
    st = kvr_report_cost_card(&t, o->measured);
    if (st == KVR_OK)
        st = kvr_cost_plot(t, o->out, formats, style, r);
    kvr_table_close(&t);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct plot_opts *o = call->opts;
    const char *name = call->n_words ? call->words[0] : "pareto";
    struct kvr_plot_result r = { 0 };
    struct kvr_plot_style style;
    unsigned formats;
    enum kvr_status st = kvr_plot_formats_parse(o->format, &formats);

    if (o->list)
        return list_plots();
    if (st == KVR_OK)
        st = read_style(o, &style);
    if (st == KVR_OK)
        st = o->measured                   ? plot_measured(o, name, formats, &style, &r)
             : strcmp(name, "claims") == 0 ? plot_claims(o, formats, &style, &r)
                                           : kvr_plot(o->db, name, o->out, formats, &style, &r);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (r.warning[0])
        fprintf(stderr, "kvreel: plot: %s\n", r.warning);
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:s}", "plot", name,
                                      "out", o->out, "stem", r.stem, "figures", r.n_figures, "rows",
                                      r.n_rows, "left_out", r.n_left_out, "drawn", r.drawn,
                                      "warning", r.warning),
                            KVR_EXIT_OK);
    printf("%s/%s: %d figure%s with %d of %d rows of data\n", o->out, r.stem, r.n_figures,
           r.n_figures == 1 ? "" : "s", r.n_rows - r.n_left_out, r.n_rows);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct plot_opts, db, "db", 0, "FILE", "kvreel.db", "database of results"),
    KVR_ARG_TEXT(struct plot_opts, out, "out", 'o', "DIR", "out/plots",
                 "folder for gnuplot script, data and images"),
    KVR_ARG_TEXT(struct plot_opts, ledger, "ledger", 0, "FILE", NULL,
                 "for figure claims: YAML file of claims; the default is results/claims.yaml"),
    KVR_ARG_TEXT(
        struct plot_opts, measured, "measured", 0, "GPU|DIR", NULL,
        "draw figure 'cost' from folder results/measured/GPU, or from folder DIR, instead of a "
        "database"),
    KVR_ARG_TEXT(struct plot_opts, format, "format", 'f', "LIST", "svg,png",
                 "comma-separated image formats: svg, png or pdf"),
    KVR_ARG_TEXT(struct plot_opts, where, "where", 0, "SQL", NULL,
                 "SQL condition on the view cells_wide that selects cells"),
    KVR_ARG_TEXT(struct plot_opts, bounds, "bound", 0, "LIST", NULL,
                 "comma-separated bounds NAME>=VALUE or NAME<=VALUE: methods that violate a bound "
                 "cannot be on the Pareto front"),
    KVR_ARG_TEXT(struct plot_opts, x, "x", 0, "NAME", NULL,
                 "metric on the x axis, such as compression, instead of the figure's default"),
    KVR_ARG_TEXT(struct plot_opts, y, "y", 0, "NAME", NULL,
                 "metric on the y axis, such as ssim, instead of the figure's default"),
    KVR_ARG_TEXT(struct plot_opts, metric, "metric", 0, "NAME", NULL,
                 "the same as --y; for figure drift: the metric that is drawn for each frame"),
    KVR_ARG_TEXT(
        struct plot_opts, preset, "preset", 0, "NAME", NULL,
        "width of the figure: single (one column of a paper, 85 mm) or double (two, 178 mm)"),
    KVR_ARG_TEXT(
        struct plot_opts, width, "width", 0, "SIZE", NULL,
        "width of the figure, 2in to 40in, such as 85mm or 3.35in; without a unit, in inches"),
    KVR_ARG_REAL(struct plot_opts, font, "font-size", 0, "PT", "0", 0, 40,
                 "font size of the axes in points, at most 40; smaller texts have at least 7 "
                 "points; 0 means 8 with --preset or --width, else 10 for figures cost and claims, "
                 "12 for the others"),
    KVR_ARG_TEXT(struct plot_opts, title, "title", 0, "TEXT", NULL,
                 "title of the figure; an empty title ('') draws none"),
    KVR_ARG_TEXT(struct plot_opts, bars, "bars", 0, "KIND", "ci",
                 "error bars: ci (95 % confidence intervals over prompts) or none"),
    KVR_ARG_FLAG(struct plot_opts, list, "list", 'l',
                 "list the names and titles of the figures, then exit"),
    KVR_ARG_FLAG(struct plot_opts, json, "json", 0,
                 "print the numbers of figures and rows as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_plot = {
    .name = "plot",
    .summary = "draw figures with gnuplot: write script, data and images",
    .usage = "[NAME] [options]",
    .examples = "  kvreel plot pareto\n"
                "  kvreel plot --list\n"
                "  kvreel plot drift --db out/demo/demo.db -o figures\n"
                "  kvreel plot cost --measured h100        # time against bytes on one GPU\n"
                "  kvreel plot pareto --preset single --title '' --format pdf\n"
                "  kvreel plot pareto --y sharpness --where \"suite = 'moviegen-nano'\"\n"
                "  gnuplot figures/pareto.gp            # after editing the script\n",
    .details = "With another metric than the figure's own, its name is part of the names of the\n"
               "files: --y psnr writes pareto-psnr.gp.\n"
               "Without gnuplot, the script and the data are still written.\n",
    .args = args,
    .opts_size = sizeof(struct plot_opts),
    .max_words = 1,
    .run = run,
};
