/* curves.h - figures with one series per method: curves with confidence bands, stacked memory, heat
 * maps.
 *
 * For a figure NAME of the array kvr_curves, kvr_plot() writes the data NAME.tsv, the gnuplot
 * script NAME.gp, and pictures. A curve's colour encodes the method family. With more than 12
 * methods (24 if the figure has a legend), labels are limited to BF16 and at most 11 methods on the
 * Pareto front of SSIM and compression ratio. If there is no front, for example because no SSIM was
 * measured, labels are limited to 11 curves that are evenly spaced in the order of mean y (mean x
 * if the figure has a legend). Curves without a label are thin and pale. */
#ifndef KVR_PLOT_CURVES_H
#define KVR_PLOT_CURVES_H

#include "harness/report/plot/plot.h"

enum kvr_curves_kind {
    KVR_CURVES_LINES, /* one curve per method, from the columns x and y; the optional columns lo and
                       * hi are the lower and upper edges of a confidence band */
    KVR_CURVES_STACK, /* one panel per method, with the memory of each allocation tag over x as
                       * stacked areas. The columns kv, meta, scratch, act and io are the MiB
                       * allocated with the tag of that name. Column peak is the peak of the total
                       * over all tags, including weights. Column at_TAG (at_kv, ..., at_weights) is
                       * the memory of one tag at the time of the peak. */
    KVR_CURVES_HEAT   /* heat map with one row of tiles per method: column x is a tile's horizontal
                       * position, and column y determines its colour */
};

/* A figure's SQL statement selects the columns that enum kvr_curves_kind lists for the figure's
 * kind. It also selects the columns method, family, is_baseline and settings. The statement sorts
 * rows by settings, with the BF16 baseline first, then by method, then by x. */
struct kvr_curves_spec {
    const char *name, *title, *sql;
    const char *const *with; /* names and values of the placeholders {NAME} in `sql` (statement.h;
                              * NULL: no placeholders) */
    bool bands; /* true: the statement selects the column `value` (one per prompt and x) instead of
                 * y, lo and hi, which kvr_bands() computes as the mean over prompts and its
                 * confidence interval */
    enum kvr_curves_kind kind;
    const char *x_label, *y_label;
    bool zero;     /* whether the y axis starts at 0 */
    double lo, hi; /* limits of the y axis (lo >= hi: computed from the data) */
    bool key;      /* whether method names are in a legend instead of at the ends of the curves */
    const char *stem; /* name of the figure's files without suffix (NULL: `name`) */
};
extern const struct kvr_curves_spec kvr_curves[]; /* the last entry's name is NULL */

/* Draws the figure `spec`; the other arguments and the errors are those of kvr_plot(). */
enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *spec, const char *db_path,
                                const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
