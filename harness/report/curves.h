/* curves.h - figures of many numbers per method: curves with bands, stacked memory, heat maps.
 *
 * Figures of curves.c; kvr_plot() finds them and those of plots.c by name and writes the same files: NAME.tsv,
 * NAME.gp and pictures. Family = colour, as everywhere; with more than a dozen methods the ones on the front of
 * SSIM and compression are named, the others are thin and pale. */
#ifndef KVR_REPORT_CURVES_H
#define KVR_REPORT_CURVES_H

#include "harness/report/plot.h"

enum kvr_curves_kind {
    KVR_CURVES_LINES, /* columns x, y and, if there is a band, lo and hi */
    KVR_CURVES_STACK, /* a panel per method: x, kv, meta, weights, rest, peak (MiB), and the tags at
                       * the peak, at_kv, at_meta, at_scratch, at_act, at_io, at_weights */
    KVR_CURVES_HEAT   /* a row per method: x, y (colour) */
};

/* The statement also gives method, family, is_baseline and settings (texts), ordered by settings,
 * then the reference, then method, then x. */
struct kvr_curves_spec {
    const char *name, *title, *sql;
    const char *const *with; /* parameters of the statement (statement.h); NULL: none */
    bool bands; /* the statement has a value per prompt and x: kvr_bands() makes y, lo and hi */
    enum kvr_curves_kind kind;
    const char *x_label, *y_label;
    bool zero;     /* y begins at 0 */
    double lo, hi; /* limits of y if lo < hi */
    bool key;      /* names are in a key, not at the curves' ends */
};
extern const struct kvr_curves_spec kvr_curves[]; /* ends with name NULL */

/* As kvr_plot(). */
enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *spec, const char *db_path,
                                const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
