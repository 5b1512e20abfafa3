/* figure.h - a figure under construction, from rows to gnuplot script; shared by the plot_*.c
 * files. */
#ifndef KVR_REPORT_FIGURE_H
#define KVR_REPORT_FIGURE_H

#include "harness/report/labels.h"
#include "harness/report/plot.h"

enum {
    KVR_FIG_MAX_TICKS = 16,
    KVR_FIG_MAX_KEY = 40,
    KVR_FIG_MAX_NOTES = 12,
    KVR_FIG_LINE_MAX = 256
};

/* Positions and sizes in pixels of 1/96 inch, y upwards as in gnuplot. The key is to the right of
 * the axes, in a narrow picture below. */
struct kvr_fig_layout {
    double width, height, left, right, bottom, top;
    double font, label, key, title, note; /* text sizes in points */
    double mark;                          /* radius of a point's mark */
    bool key_below;
    int key_columns;
    double key_top, key_column; /* top of the key's first line; width of a column of the key */
};

struct kvr_fig_key {
    char text[80];
    int point_type; /* gnuplot's point type; 0: a heading, -1: the front's line, -2: the line x =
                     * y */
    const char *rgb;
};

struct kvr_fig_axis {
    const struct kvr_plot_axis *spec;
    double lo, hi; /* drawn range */
    bool narrow;   /* room for half as many ticks */
    double cap;    /* > 0: the axis is stretched towards 1; values within `cap` of 1 are drawn at
                    * its end */
    int n_ticks;
    double tick[KVR_FIG_MAX_TICKS];
};

struct kvr_fig_point {
    int row;
    double x, y;                   /* scaled; NaN: missing */
    double x_lo, x_hi, y_lo, y_hi; /* ends of intervals, scaled; NaN: missing */
    bool drawn, baseline, study;
    bool front;        /* not dominated (pareto.h) */
    bool corner;       /* corner of the front's line, from means alone */
    bool named;        /* labelled; in crowded figures some points are not */
    bool bar;          /* interval is drawn; in crowded figures only at corners */
    int family, shape; /* index into families; into kvr_fig_shapes */
    char *text;        /* owned: the method, and its number of cells if some cells have no result */
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
    char note[KVR_FIG_MAX_NOTES][KVR_FIG_LINE_MAX]; /* the captions, split into lines */
    char title[2][KVR_FIG_LINE_MAX];
    bool crowded; /* only the front's corners have bars */
    int n;        /* points, sorted by x, y, name */
    struct kvr_fig_point *point;
    int n_families;
    const char **family; /* sorted; borrowed from rows */
    struct kvr_fig_axis x, y;
    struct kvr_label *label; /* [n]; unused for points that are not drawn */
};

struct kvr_fig_shape {
    double below; /* bits */
    int point_type;
    const char *title;
};
extern const struct kvr_fig_shape kvr_fig_shapes[]; /* the last is for unknown bits */
enum { KVR_FIG_N_SHAPES = 7 };

/* Whether the picture is too narrow for a key beside the axes (one column of a paper). */
bool kvr_fig_is_narrow(const struct kvr_plot_style *s);
/* Computes key, text lines and layout from the points. */
void kvr_fig_lay_out(struct kvr_figure *f);
int kvr_fig_key_rows(const struct kvr_figure *f); /* lines of a column of the key */
/* Width of a text in ems of a sans-serif font, an upper bound of common ones. */
double kvr_fig_ems(const char *text);
/* Wraps text at blanks into at most n lines of at most `most` characters; returns the number of lines. */
int kvr_fig_wrap(const char *text, int most, char lines[][KVR_FIG_LINE_MAX], int n);
/* Writes "set terminal ..." for the picture's size and fonts. */
void kvr_fig_terminal(FILE *to, unsigned format, double width, double height);

/* Computes range and ticks of an axis from n values and the ends of their intervals [2 n] (NaN:
 * none). */
void kvr_fig_fit(struct kvr_fig_axis *a, const double *v, const double *ends, int n);
/* Writes range and ticks to the script, with functions for axis `which`: s maps a value to its
 * position, in clips it to the frame. */
void kvr_fig_put_axis(const struct kvr_fig_axis *a, char which, FILE *to);
/* Writes the chaos floor of the y metric to *floor and returns its label; NULL: there is no floor,
 * or it is outside the axis. */
const char *kvr_fig_floor(const struct kvr_figure *f, double *floor);
/* Computes ranges and ticks of both axes from the drawn points. */
enum kvr_status kvr_fig_axes(struct kvr_figure *f);
/* Position of value v between the axis's ends at lo_px and hi_px, and the inverse below. */
double kvr_fig_px(const struct kvr_fig_axis *a, double v, double lo_px, double hi_px);
/* The position of value v on the drawn scale, which is logarithmic on a stretched axis. */
double kvr_fig_drawn(const struct kvr_fig_axis *a, double v);
double kvr_fig_value(const struct kvr_fig_axis *a, double px, double lo_px, double hi_px);

/* Marks front and corner points. Without a column `verdict` both come from the means. */
void kvr_fig_front(struct kvr_figure *f);

/* Adds the columns `verdict` and `p_front` of kvr_pareto() over the two axes, if both axes have a better
 * direction and the rows have a machine. */
enum kvr_status kvr_plot_verdicts(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                  const char *db_path, const struct kvr_plot_style *style);

/* Adds columns NAME_lo and NAME_hi of both axes: 95 % intervals of means over prompts, or of a
 * median time; NULL for exact values and for a single prompt. */
enum kvr_status kvr_plot_intervals(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                   const char *db_path, const char *where);

/* Writes the files below `dir`. */
enum kvr_status kvr_fig_write_data(const struct kvr_figure *f, const char *dir);
enum kvr_status kvr_fig_write_script(const struct kvr_figure *f, const char *dir, unsigned formats);

#endif
