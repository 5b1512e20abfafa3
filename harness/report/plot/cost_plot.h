/* cost_plot.h - plots runtime against peak memory of rollouts on one GPU, next to the published
 * figures of the 33-method study.
 *
 *     struct kvr_table *t;
 *     KVR_TRY(kvr_report_cost_card(&t, "h100"));
 *     KVR_TRY(kvr_cost_plot(t, "out/plots", KVR_PLOT_PNG, &(struct kvr_plot_style){ 0 }, &r));
 *
 * Both functions below write cost.tsv (data), cost.gp (gnuplot script) and pictures with one point
 * per method and attention path (how attention reads the encoded cache, for example `fused`). A
 * marker's colour encodes the method family, and its shape encodes the attention path. A letter
 * after a label marks a result from an older measurement session on the GPU. The title names the
 * GPU, and the caption gives each session's commit and date. The caption also gives the number of
 * times with the verdict NOISY, which other load on the machine, for example, made unreliable. Each
 * value of the column `settings` has its own figure; the second figure is named cost-2.*. Rows of
 * the argument `rows` with equal settings must be adjacent. Output is deterministic. */
#ifndef KVR_PLOT_COST_PLOT_H
#define KVR_PLOT_COST_PLOT_H

#include "harness/report/plot/plot.h"

/* KVR_EINVAL: no row has both a time and a peak memory. If gnuplot is missing, only the data and
 * the script are written, r->warning says so, and the status is KVR_OK. */
enum kvr_status kvr_cost_plot(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                              const struct kvr_plot_style *style, struct kvr_plot_result *r);

/* Draws runtime against peak memory of a database's rollouts; `rows` is the result of
 * figure_cost.sql. A second panel shows the values published by the 33-method study. */
enum kvr_status kvr_cost_figure(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *r);

#endif
