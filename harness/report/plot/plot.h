/* plot.h - figures from a database: a gnuplot script, its data, and pictures.
 *
 *     struct kvr_plot_result r;
 *     KVR_TRY(kvr_plot("kvreel.db", "pareto", "out/plots", KVR_PLOT_SVG | KVR_PLOT_PNG,
 *                      &(struct kvr_plot_style){ 0 }, &r));
 *     if (r.warning[0])
 *         fprintf(stderr, "%s\n", r.warning);
 *
 * For the figure `pareto`, kvr_plot writes pareto.tsv, pareto.gp, pareto.svg and pareto.png to the
 * folder out/plots. The script reads the data by column name and can be edited and rerun. A
 * marker's colour encodes the method family, and its shape encodes a range of bits per cached
 * scalar. Hollow markers are methods NAME@study, which follow the code of the 33-method study (the
 * paper that kvreel reproduces). Interval bars are 95 % intervals (columns x_lo, x_hi, y_lo, y_hi).
 * The axis of a metric with maximum 1, such as SSIM, is logarithmic in 1 - value if more than half
 * of the values below 1 are above 0.9. Each group of rows with equal settings (model, frames,
 * window, ...) has its own figure and caption; the second group is written to pareto-2.*. A figure
 * with other axes than its own has other files: pareto-psnr.* with y = psnr, pareto-against-bits.*
 * with x = bits.
 *
 * Output is deterministic. */
#ifndef KVR_PLOT_PLOT_H
#define KVR_PLOT_PLOT_H

#include "harness/report/table/table.h"

enum { KVR_PLOT_SVG = 1, KVR_PLOT_PNG = 2, KVR_PLOT_PDF = 4 };

/* Converts a list of formats such as "svg,png" to a bit mask. KVR_EINVAL: a format is unknown (the
 * message lists the valid formats). */
enum kvr_status kvr_plot_formats_parse(const char *text, unsigned *out);

struct kvr_plot_style;
struct kvr_plot_result;

struct kvr_plot_axis {
    const char *column; /* column of the figure's SQL statement with the values on this axis */
    const char *label;  /* with unit */
    const char *of;     /* column whose text is appended to the axis label; all rows of a figure
                         * have the same text (NULL: nothing is appended) */
    int better;         /* direction of improvement, +1 for higher, -1 for lower, or 0 if the figure
                         * has no Pareto front */
    bool log;           /* logarithmic axis */
    double scale;       /* drawn value = stored value * scale, to convert units; 0 means 1 */
    double lo, hi;      /* minimum and maximum of the metric, for example 1 for SSIM's maximum; the
                         * axis ends at most slightly beyond them (lo >= hi: no limits) */
};

/* Each figure is defined by one entry of the array in plots.c. The SQL statement of a figure
 * selects x.column and y.column, and `method` (text), `family` (text), `bits` (per cached scalar,
 * or NULL) and `is_baseline` (1 for BF16, else 0). The statement also selects the numbers of
 * successful and of attempted rollouts, `n_ok` and `n_attempted`. All other columns of the
 * statement are only written to the data file. */
struct kvr_plot_spec {
    const char *name, *title;
    const char *sql;
    struct kvr_plot_axis x, y;
    const char *const *settings; /* names of the columns whose values define a group of settings;
                                  * ends with NULL */
    /* Callback that draws a figure which is not a scatter plot of x and y (NULL: the figure is a
     * scatter plot with one point per row). */
    enum kvr_status (*draw)(const struct kvr_table *rows, const char *out_dir, unsigned formats,
                            const struct kvr_plot_style *style, struct kvr_plot_result *out);
    const char *stem; /* name of the figure's files without suffix (NULL: `name`) */
};
extern const struct kvr_plot_spec kvr_plots[]; /* the last entry's name is NULL */

/* Style of a figure, and the cells (rollouts) that it shows. The value {0} means a width of 10.4
 * inches for screens, interval bars, and all cells. */
struct kvr_plot_style {
    double width_in;   /* width of the picture in inches (0: 10.4); 3.35 fits one column of a
                        * two-column paper, and 7 fits the page */
    double font_pt;    /* font size of the axes in points (0: 8 if width_in is set, otherwise 10 or
                        * 12, depending on the figure); point labels, legend and captions are
                        * smaller, but at least 7 points */
    const char *title; /* title of the figure (NULL: the default title, "": no title) */
    bool no_bars;
    const char *where;  /* SQL condition on the view cells_wide that selects cells (NULL: all
                         * cells) */
    const char *bounds; /* bounds on the means of metrics, such as "ssim>=0.9" (pareto.h); methods
                         * that violate a bound are excluded from the Pareto front (NULL: no
                         * bounds) */
    const char *x, *y;  /* name of a metric, or of a column of the view `summary`, that replaces the
                         * figure's x or y axis (NULL: the axis is not replaced) */
};

struct kvr_plot_result {
    int n_figures;     /* number of figures written, one per group of settings */
    int n_rows;        /* number of rows that the figure's SQL statement returned */
    int n_left_out;    /* number of rows without x or y, which are written to the data file but not
                        * drawn */
    bool drawn;        /* gnuplot made the pictures */
    char stem[160];    /* name of the first figure's files without suffix */
    char warning[512]; /* why gnuplot drew no pictures ("": the pictures were drawn) */
};

/* Writes the files of the figure `name` to the folder `out_dir`. KVR_ENOTFOUND: there is no such
 * figure (the message suggests the nearest name). KVR_EINVAL: no row of the figure has both an x
 * and a y value. If gnuplot is missing, only the data and the script are written, out->warning says
 * so, and the status is KVR_OK. KVR_EIO: gnuplot failed. */
enum kvr_status kvr_plot(const char *db_path, const char *name, const char *out_dir,
                         unsigned formats, const struct kvr_plot_style *style,
                         struct kvr_plot_result *out);

/* Like kvr_plot, but draws `rows` instead of the result of the figure's SQL statement. The caption
 * includes the text `host`, which names the machines. */
enum kvr_status kvr_plot_table(const struct kvr_plot_spec *spec, const struct kvr_table *rows,
                               const char *host, const char *out_dir, unsigned formats,
                               const struct kvr_plot_style *style, struct kvr_plot_result *out);

#endif
