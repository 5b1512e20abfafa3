/* figure.h - one figure on its way from rows to script; shared by the plot_*.c files. */
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

/* Pixels of 1/96 inch, y upwards as in gnuplot. The key stands at the right of the plot proper, in
 * a narrow picture below. */
struct kvr_fig_layout {
    double width, height, left, right, bottom, top;
    double font, label, key, title, note; /* sizes of text in points */
    double mark;                          /* radius of a point's mark */
    bool key_below;
    int key_columns;
    double key_top, key_column; /* of its first line; width of a column */
};

struct kvr_fig_key {
    char text[80];
    int point_type; /* 0: a heading, -1: the line of the front, -2: that of equal x and y */
    const char *rgb;
};

struct kvr_fig_axis {
    const struct kvr_plot_axis *spec;
    double lo, hi; /* what is drawn */
    bool
        narrow; /* has room for half as many ticks: numbers beside each other in a column's width */
    double cap; /* > 0: stretched towards 1, what is closer to 1 than this stands at the end */
    int n_ticks;
    double tick[KVR_FIG_MAX_TICKS];
};

struct kvr_fig_point {
    int row;
    double x, y;                   /* scaled; NaN where there is none */
    double x_lo, x_hi, y_lo, y_hi; /* intervals, the same */
    bool drawn, baseline, study;
    bool front;        /* no method surely dominates it (pareto.h) */
    bool corner;       /* of the line: by the means alone, which noise moves */
    bool named;        /* where points crowd, only some are */
    bool bar;          /* its interval is drawn: of all, where points crowd of the corners */
    int family, shape; /* index into families; into kvr_fig_shapes */
    char *text;        /* owned: the method, and how many cells it has if not all */
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
    char note[KVR_FIG_MAX_NOTES][KVR_FIG_LINE_MAX]; /* the captions, as lines */
    char title[2][KVR_FIG_LINE_MAX];
    bool crowded; /* only the front's corners have bars */
    int n;        /* points, by x, then y, then name */
    struct kvr_fig_point *point;
    int n_families;
    const char **family; /* sorted; borrowed from rows */
    struct kvr_fig_axis x, y;
    struct kvr_label *label; /* [n]; of those not drawn unused */
};

struct kvr_fig_shape {
    double below; /* bits */
    int point_type;
    const char *title;
};
extern const struct kvr_fig_shape kvr_fig_shapes[]; /* the last is for unknown bits */
enum { KVR_FIG_N_SHAPES = 7 };

/* Too narrow for a key beside the plot: a column of a paper. */
bool kvr_fig_is_narrow(const struct kvr_plot_style *s);
/* Key, lines of text and places, from the points. */
void kvr_fig_lay_out(struct kvr_figure *f);
int kvr_fig_key_rows(const struct kvr_figure *f); /* lines of a column of the key */
/* Width of a text in ems of a plain sans-serif, the widest of the usual ones. */
double kvr_fig_ems(const char *text);
/* Lines of at most `most` characters, broken at blanks; how many, at most `n`. */
int kvr_fig_wrap(const char *text, int most, char lines[][KVR_FIG_LINE_MAX], int n);
/* "set terminal ...": of a picture of that size, with text as large as it says. */
void kvr_fig_terminal(FILE *to, unsigned format, double width, double height);

/* Range and ticks of an axis of n values with the ends of their intervals [2 n] (NaN: none). */
void kvr_fig_fit(struct kvr_fig_axis *a, const double *v, const double *ends, int n);
/* Range and ticks as a script says them, with functions for axis `which`: s maps a value to where
 * it is drawn, in keeps it inside of the frame. */
void kvr_fig_put_axis(const struct kvr_fig_axis *a, char which, FILE *to);
/* The floor of what is drawn upwards, where it lies within the axis, and the words for it; NULL:
 * there is none. */
const char *kvr_fig_floor(const struct kvr_figure *f, double *floor);
/* Ranges and ticks from the drawn points. */
enum kvr_status kvr_fig_axes(struct kvr_figure *f);
double kvr_fig_px(const struct kvr_fig_axis *a, double v, double lo_px, double hi_px);
/* What the script says of a value, and of a place: a logarithm where the axis is stretched. */
double kvr_fig_drawn(const struct kvr_fig_axis *a, double v);
double kvr_fig_value(const struct kvr_fig_axis *a, double px, double lo_px, double hi_px);

/* Marks front and corner. Without a column `verdict` the means stand for both. */
void kvr_fig_front(struct kvr_figure *f);

/* Adds the columns `verdict` and `p_front` of kvr_pareto() over the two axes, if both axes have a better
 * direction and the rows have a machine. */
enum kvr_status kvr_plot_verdicts(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                  const char *db_path, const struct kvr_plot_style *style);

/* Gives *rows columns NAME_lo and NAME_hi of both axes: 95 % intervals of means over prompts, of a
 * median of times; NULL of what is exact and of one prompt. */
enum kvr_status kvr_plot_intervals(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                   const char *db_path, const char *where);

/* Files below `dir`. */
enum kvr_status kvr_fig_write_data(const struct kvr_figure *f, const char *dir);
enum kvr_status kvr_fig_write_script(const struct kvr_figure *f, const char *dir, unsigned formats);

#endif
