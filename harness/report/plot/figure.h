/* figure.h - points, axes, legend and layout of one scatter plot, from which the plot_*.c files
 * write a gnuplot script. */
#ifndef KVR_PLOT_FIGURE_H
#define KVR_PLOT_FIGURE_H

#include "harness/report/plot/labels.h"
#include "harness/report/plot/plot.h"

enum {
    KVR_FIG_MAX_TICKS = 16,
    KVR_FIG_MAX_KEY = 40,
    KVR_FIG_MAX_NOTES = 12,
    KVR_FIG_LINE_MAX = 256
};

/* Positions and sizes are in pixels of 1/96 inch; y points upwards, like gnuplot's y. The legend
 * (gnuplot's key) is to the right of the axes, or below the axes in a narrow picture. */
struct kvr_fig_layout {
    double width, height, left, right, bottom, top;
    double font, label, key, title, note; /* text sizes in points */
    double mark;                          /* radius of a point's marker in pixels */
    bool key_below;
    int key_columns;
    double key_top, key_column; /* y of the top of the legend's first line; width of one column of
                                 * the legend */
};

struct kvr_fig_key {
    char text[80];
    int point_type; /* gnuplot's point type in an entry of the legend (0: the entry is a heading,
                     * -1: Pareto front, -2: line x = y) */
    const char *rgb;
};

struct kvr_fig_axis {
    const struct kvr_plot_axis *spec;
    double lo, hi; /* drawn range */
    bool narrow;   /* the picture is narrow: an axis that is logarithmic in 1 - value has about half
                    * as many ticks */
    double cap;    /* 0: the axis is linear, or logarithmic if spec->log is set; > 0: the axis is
                    * logarithmic in 1 - value, where log(0) is avoided by drawing values above 1 -
                    * cap at 1 - cap */
    int n_ticks;
    double tick[KVR_FIG_MAX_TICKS];
};

struct kvr_fig_point {
    int row;
    double x, y;                   /* scaled (NaN: missing) */
    double x_lo, x_hi, y_lo, y_hi; /* ends of the confidence intervals of x and y, multiplied by the
                                    * scale of the axis (NaN: no interval) */
    bool drawn, baseline, study;
    bool front;        /* not dominated (pareto.h) */
    bool corner;       /* the point is on the Pareto front of the means x and y, which is drawn as a
                        * staircase line */
    bool named;        /* the point has a label; crowded figures omit some labels */
    bool bar;          /* the point's confidence intervals are drawn. In a crowded figure, these are
                        * only the points with `corner`; if both axes show the same metric, only
                        * points whose x and y intervals do not overlap */
    int family, shape; /* index into kvr_figure.family; index into kvr_fig_shapes */
    char *text;        /* label of the point, such as "RTN_INT4 (9/10)" if 9 of 10 rollouts of this
                        * method succeeded; owned */
};

struct kvr_figure {
    const struct kvr_plot_spec *spec;
    const struct kvr_plot_style *style;
    const struct kvr_table *rows;
    char *stem;       /* "pareto", "pareto-2"; owned */
    char *caption[2]; /* owned */
    struct kvr_fig_layout at;
    int n_key, n_notes, n_title;
    struct kvr_fig_key key[KVR_FIG_MAX_KEY];
    char note[KVR_FIG_MAX_NOTES][KVR_FIG_LINE_MAX]; /* captions, split into lines */
    char title[2][KVR_FIG_LINE_MAX];
    bool crowded; /* more than 30 points are drawn, so only some have interval bars (see `bar`) */
    int n;        /* number of points. The points are sorted by x, y and label; points that are not
                   * drawn are last */
    struct kvr_fig_point *point;
    int n_families;
    const char **family; /* names of the method families, sorted; strings borrowed from `rows` */
    struct kvr_fig_axis x, y;
    struct kvr_label *label; /* labels [n] of the points; entries of points that are not drawn are
                              * unused */
};

struct kvr_fig_shape {
    double below; /* exclusive upper limit of the bits per cached scalar of methods with this
                   * marker */
    int point_type;
    const char *title;
};
extern const struct kvr_fig_shape kvr_fig_shapes[]; /* the last shape is for methods whose bits per
                                                     * cached scalar are unknown */
enum { KVR_FIG_N_SHAPES = 7 };

/* Returns whether the picture is too narrow for a legend to the right of the axes. An example is a
 * picture with the width of one column of a two-column paper. */
bool kvr_fig_is_narrow(const struct kvr_plot_style *s);
/* Computes the legend, the line breaks of the captions, and the layout from the points. */
void kvr_fig_lay_out(struct kvr_figure *f);
int kvr_fig_key_rows(const struct kvr_figure *f); /* Number of lines per column of the figure's
                                                   * legend */
/* Returns the width of a text in ems: an upper bound for common sans-serif fonts. */
double kvr_fig_ems(const char *text);
/* Wraps text at blanks into at most n lines of at most `most` characters; returns the number of
 * lines. */
int kvr_fig_wrap(const char *text, int most, char lines[][KVR_FIG_LINE_MAX], int n);

/* Computes range and ticks of an axis from the values v [n] and the ends of their confidence
 * intervals, ends [2 n] (NaN: no interval). */
void kvr_fig_fit(struct kvr_fig_axis *a, const double *v, const double *ends, int n);
/* Returns the distance of ticks on a linear axis of length span > 0: 1, 2 or 5 times a power of
 * ten, such that the axis has at most n + 1 ticks. */
double kvr_fig_step(double span, int n);
/* Writes the axis's range and ticks to the gnuplot script. The script also defines two gnuplot
 * functions for axis `which`, 'x' or 'y'. Function sx (or sy) maps a value to gnuplot's coordinate
 * (kvr_fig_drawn). Function inx (or iny) also clamps the coordinate to the axis range. */
void kvr_fig_put_axis(const struct kvr_fig_axis *a, char which, FILE *to);
/* Sets *floor to the chaos floor of the y metric and returns the floor's label. Returns NULL if the
 * metric has no chaos floor, or the chaos floor is outside the axis. */
const char *kvr_fig_floor(const struct kvr_figure *f, double *floor);
/* Computes ranges and ticks of both axes from the drawn points. */
enum kvr_status kvr_fig_axes(struct kvr_figure *f);
/* Returns the pixel position of value v on an axis whose ends a->lo and a->hi are at pixels lo_px
 * and hi_px. */
double kvr_fig_px(const struct kvr_fig_axis *a, double v, double lo_px, double hi_px);
/* Returns gnuplot's coordinate of value v: -log10(max(1 - v, cap)) if cap > 0 (see kvr_fig_axis),
 * otherwise v. */
double kvr_fig_drawn(const struct kvr_fig_axis *a, double v);
/* Returns gnuplot's coordinate (see kvr_fig_drawn) at pixel position px. */
double kvr_fig_value(const struct kvr_fig_axis *a, double px, double lo_px, double hi_px);

/* Sets the fields `corner` and `front` of each point. `corner` is true if no other drawn point is
 * better by the means x and y. `front` is true unless column `verdict` of the point's row
 * (kvr_plot_verdicts) is "dominated"; the verdict also considers confidence intervals. Without this
 * column, `front` equals `corner`. Both fields are false for points that are not drawn, and for
 * methods that violate the bounds on metrics in f->style->bounds. */
void kvr_fig_front(struct kvr_figure *f);

/* Places the labels of the drawn points (f->label) and sets `named` of each point that has one.
 * Figures of many points omit labels that do not fit. KVR_ENOMEM. */
enum kvr_status kvr_fig_place_labels(struct kvr_figure *f);
int kvr_fig_count_unnamed(const struct kvr_figure *f); /* Number of drawn points without a label */

/* Adds the columns `verdict` and `p_front` (probability of being on the Pareto front), computed by
 * kvr_pareto() with the two axes as objectives. The rows of both tables are matched by method,
 * settings and machine. The function does nothing if an axis has no direction of improvement, or if
 * the rows have no column `machine`. */
enum kvr_status kvr_plot_verdicts(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                  const char *db_path, const struct kvr_plot_style *style);

/* Adds the columns NAME_lo and NAME_hi for the column NAME of the x axis and of the y axis. They
 * are the ends of the 95 % confidence interval of the mean over prompts, or of the median if NAME
 * is runtime_s. They are NULL for bytes and ratios of bytes, which have no sampling error, and if
 * there are fewer than two values. */
enum kvr_status kvr_plot_intervals(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                   const char *db_path, const char *where);

/* Writes the figure's data to the file STEM.tsv in the folder `dir`; STEM is f->stem. */
enum kvr_status kvr_fig_write_data(const struct kvr_figure *f, const char *dir);
/* Writes the figure's gnuplot script to the file STEM.gp in the folder `dir`. */
enum kvr_status kvr_fig_write_script(const struct kvr_figure *f, const char *dir, unsigned formats);

#endif
