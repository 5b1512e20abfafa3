/* cost_plot.h - seconds against peak memory of rollouts on one card, beside the study's figures.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_report_cost_card(&t, "h100"));
 *     KVR_TRY(kvr_cost_plot(t, "out/plots", KVR_PLOT_PNG, &(struct kvr_plot_style){ 0 }, &r));
 *
 * writes cost.tsv, cost.gp and pictures: one point a method and path. Colour is the family, shape the path.
 * A letter behind a name marks a figure of an older session. The captions name card, commits, dates and
 * the times that are not confirmed. Rows whose column `settings` differs are of another figure: cost-2.*, and so
 * on; they are neighbours in the table. The same table gives the same files. */
#ifndef KVR_REPORT_COST_PLOT_H
#define KVR_REPORT_COST_PLOT_H

#include "harness/report/plot.h"

/* KVR_EINVAL: nothing to draw. Without gnuplot data and script stay, and r->warning says why. */
enum kvr_status kvr_cost_plot(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                              const struct kvr_plot_style *style, struct kvr_plot_result *r);

/* Of the rows of a database (figure_cost.sql): the same figure, the published panel included. */
enum kvr_status kvr_cost_figure(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *r);

#endif
