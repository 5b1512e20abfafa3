/* curves.h - figures with one series per method: curves with confidence bands, stacked memory, heat
 * maps.
 *
 * The function kvr_plot() draws these figures by name, like the figures of plots.c, and writes
 * NAME.tsv, NAME.gp and pictures. A curve's colour encodes the method family. With more than 12
 * methods (24 if the figure has a legend), labels are limited to BF16 and at most 11 methods on the
 * Pareto front of SSIM and compression ratio. Without a front, the methods are ranked by their mean
 * value, and 11 methods with evenly spaced ranks are labelled. The curves of other methods are thin
 * and pale. */
#ifndef KVR_PLOT_CURVES_H
#define KVR_PLOT_CURVES_H

#include "harness/report/plot/plot.h"

enum kvr_curves_kind {
    KVR_CURVES_LINES, /* one curve per method, from the columns x and y; the columns lo and hi are
                       * the confidence band, if the figure has one */
    KVR_CURVES_STACK, /* one panel per method, with the memory of each allocation tag over x as
                       * stacked areas. The columns kv, meta, scratch, act and io are the MiB
                       * allocated with the tag of that name. Column peak is the peak of their sum,
                       * and column at_TAG the memory of the tag TAG at the peak. */
    KVR_CURVES_HEAT   /* heat map with one row per method: column x is the position in the row, and
                       * column y the colour */
};

/* A figure's SQL statement selects the columns that enum kvr_curves_kind lists for its kind, and
 * method, family, is_baseline and settings. The statement sorts rows by settings, with the BF16
 * baseline first, then by method, then by x. */
struct kvr_curves_spec {
    const char *name, *title, *sql;
    const char *const *with; /* names and values of the placeholders {NAME} in `sql` (statement.h;
                              * NULL: no placeholders) */
    bool bands; /* whether the statement selects one `value` per prompt and x, from which
                 * kvr_bands() computes the mean y and the interval [lo, hi] */
    enum kvr_curves_kind kind;
    const char *x_label, *y_label;
    bool zero;     /* whether the y axis starts at 0 */
    double lo, hi; /* limits of the y axis (lo >= hi: chosen from the data) */
    bool key;      /* whether method names are in a legend instead of at the ends of the curves */
};
extern const struct kvr_curves_spec kvr_curves[]; /* ends with name NULL */

/* Draws a figure of kvr_curves; arguments and errors are those of kvr_plot(). */
enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *spec, const char *db_path,
                                const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
