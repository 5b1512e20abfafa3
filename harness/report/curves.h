/* curves.h - figures with a series per method: curves with bands, stacked memory, heat maps.
 *
 * kvr_plot() finds these figures and those of plots.c by name and writes NAME.tsv, NAME.gp and
 * pictures. Colour is the family. With more than twelve methods, only those on the front of SSIM
 * and compression are labelled; the others are thin and pale. */
#ifndef KVR_REPORT_CURVES_H
#define KVR_REPORT_CURVES_H

#include "harness/report/plot.h"

enum kvr_curves_kind {
    KVR_CURVES_LINES, /* columns x, y and, if there is a band, lo and hi */
    KVR_CURVES_STACK, /* a panel per method: x, kv, meta, weights, rest, peak (MiB), at_TAG at the peak */
    KVR_CURVES_HEAT /* a row per method: x, y (colour) */
};

/* The statement also selects method, family, is_baseline and settings (texts), ordered by settings,
 * reference first, method, x. */
struct kvr_curves_spec {
    const char *name, *title, *sql;
    const char *const *with; /* parameters of the statement (statement.h); NULL: it has none */
    bool bands; /* the statement has a value per prompt and x; kvr_bands() computes y, lo and hi */
    enum kvr_curves_kind kind;
    const char *x_label, *y_label;
    bool zero;     /* the y axis starts at 0 */
    double lo, hi; /* limits of y if lo < hi */
    bool key;      /* names are in a key instead of at the ends of curves */
};
extern const struct kvr_curves_spec kvr_curves[]; /* ends with name NULL */

/* Like kvr_plot(). */
enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *spec, const char *db_path,
                                const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
