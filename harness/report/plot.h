/* plot.h - figures from a database: a gnuplot script, its data, and pictures.
 *
 *     struct kvr_plot_result r;
 *     KVR_TRY(kvr_plot("kvreel.db", "pareto", "out/plots", KVR_PLOT_SVG | KVR_PLOT_PNG,
 *                      &(struct kvr_plot_style){ 0 }, &r));
 *     if (r.warning[0])
 *         fprintf(stderr, "%s\n", r.warning);
 *
 * writes pareto.tsv, pareto.gp, pareto.svg and pareto.png below out/plots. The script reads the
 * data by column name and can be edited and rerun. Colour is the family, shape the bits per cached
 * scalar. A hollow mark is the study's reading, a bar a 95 % interval (columns x_lo, x_hi, y_lo,
 * y_hi). An axis that ends at 1 is stretched near 1 if most points lie above 0.9. Rows with
 * different settings (model, frames, window, ...) are not mixed: the second group goes to
 * pareto-2.*, and so on, each with its own caption.
 *
 * Output is deterministic. */
#ifndef KVR_REPORT_PLOT_H
#define KVR_REPORT_PLOT_H

#include "harness/report/table.h"

enum { KVR_PLOT_SVG = 1, KVR_PLOT_PNG = 2, KVR_PLOT_PDF = 4 };

/* "svg,png" -> bits; KVR_EINVAL names the formats. */
enum kvr_status kvr_plot_formats_parse(const char *text, unsigned *out);

struct kvr_plot_style;
struct kvr_plot_result;

struct kvr_plot_axis {
    const char *column; /* column of the statement */
    const char *label;  /* with unit */
    const char *of;     /* column whose text follows the label; NULL: nothing follows */
    int better;         /* +1: higher is better, -1: lower; 0: neither, so no front */
    bool log;           /* logarithmic axis */
    double scale;       /* drawn = stored * scale; 0 means 1 */
    double lo, hi;      /* limits of the axis if lo < hi: SSIM ends at 1 */
};

/* A figure, a row of plots.c. The statement selects the columns of the axes and `method` (text),
 * `family` (text), `bits` (number or NULL), `is_baseline` (0 or 1), `n_ok` and `n_attempted`. Other
 * columns are only written to the data file. */
struct kvr_plot_spec {
    const char *name, *title;
    const char *sql;
    struct kvr_plot_axis x, y;
    const char *const *settings; /* columns that define a group; ends with NULL */
    /* Draws the rows of a figure with fixed axes; NULL: rows are drawn as points of x and y. */
    enum kvr_status (*draw)(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                            const struct kvr_plot_style *style, struct kvr_plot_result *out);
};
extern const struct kvr_plot_spec kvr_plots[]; /* ends with name NULL */

/* Style and selection of a figure. Zeros: screen width, with intervals, all cells. */
struct kvr_plot_style {
    double width_in;   /* width of the picture; in print 3.35 for one column, 7 for two */
    double font_pt;    /* font size of the axes; names, key and notes are smaller, at least 7 */
    const char *title; /* NULL: the figure's own title; "": no title */
    bool no_bars;
    const char *where;  /* SQL condition on cells_wide that selects cells; NULL: all */
    const char *bounds; /* bounds of pareto.h: methods beyond them are not in the front */
    const char *x, *y;  /* replaces the axis: a column of summary, or a metric */
};

struct kvr_plot_result {
    int n_figures;     /* number of groups of settings with something to draw */
    int n_rows;        /* rows of the statement */
    int n_left_out;    /* rows without x or y, which are only in the data file */
    bool drawn;        /* gnuplot made the pictures */
    char warning[512]; /* why there are no pictures; "" if there are */
};

/* KVR_ENOTFOUND: no such plot, with the nearest name; KVR_EINVAL: nothing to draw. If gnuplot is
 * missing or fails, data and script remain, `warning` gives the reason, and the status is
 * KVR_OK. */
enum kvr_status kvr_plot(const char *db_path, const char *name, const char *out_dir,
                         unsigned formats, const struct kvr_plot_style *style,
                         struct kvr_plot_result *out);

/* Like kvr_plot, for given rows. The caption names `host`. */
enum kvr_status kvr_plot_table(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                               const char *host, const char *out_dir, unsigned formats,
                               const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
