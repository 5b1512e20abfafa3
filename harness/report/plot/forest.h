/* forest.h - draws the forest plot of a ledger (YAML file of claims to test): estimate, interval,
 * margin and published value of each claim.
 *
 *     struct kvr_plot_result r;
 *     KVR_TRY(kvr_forest(&ledger, "out/plots", KVR_PLOT_SVG | KVR_PLOT_PNG,
 *                        &(struct kvr_plot_style){ 0 }, &r));
 *
 * The function kvr_forest writes claims.tsv (data), claims.gp (gnuplot script) and pictures. Claims
 * of different metrics share one axis, because every value is divided by the equivalence margin of
 * its claim. A difference between -1 and 1 on this axis is therefore too small to matter. The plot
 * shows the claims that have an interval and a margin, sorted by verdict and then from the largest
 * to the smallest estimate. The field r->n_left_out is the number of tested claims that are not
 * shown. Output is deterministic. */
#ifndef KVR_PLOT_FOREST_H
#define KVR_PLOT_FOREST_H

#include "harness/report/claims/claims.h"
#include "harness/report/plot/plot.h"

/* KVR_EINVAL: no claim has an interval and a margin. If gnuplot is missing, only the data and the
 * script are written, r->warning says so, and the status is KVR_OK. */
enum kvr_status kvr_forest(const struct kvr_ledger *l, const char *out_dir, unsigned formats,
                           const struct kvr_plot_style *style, struct kvr_plot_result *r);

#endif
