/* cost_plot.h - plots runtime against peak memory of rollouts on one GPU, next to the study's
 * figures.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_report_cost_card(&t, "h100"));
 *     KVR_TRY(kvr_cost_plot(t, "out/plots", KVR_PLOT_PNG, &(struct kvr_plot_style){ 0 }, &r));
 *
 * writes cost.tsv, cost.gp and pictures: one point per method and path. Colour is the family, shape
 * the path. A letter after a name marks a result of an older session. The captions give GPU,
 * commits, dates and unconfirmed times. Each value of column `settings`, whose rows are adjacent,
 * has its own figure: cost-2.*, and so on. Output is deterministic. */
#ifndef KVR_REPORT_COST_PLOT_H
#define KVR_REPORT_COST_PLOT_H

#include "harness/report/plot.h"

/* KVR_EINVAL: nothing to draw. Without gnuplot only data and script are written, and r->warning
 * gives the reason. */
enum kvr_status kvr_cost_plot(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                              const struct kvr_plot_style *style, struct kvr_plot_result *r);

/* The same figure for the rows of a database (figure_cost.sql), with the published panel. */
enum kvr_status kvr_cost_figure(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *r);

#endif
