/* figure.h - one figure on its way from rows to script; shared by the plot_*.c files. */
#ifndef KVR_REPORT_FIGURE_H
#define KVR_REPORT_FIGURE_H

#include "harness/report/labels.h"
#include "harness/report/plot.h"

/* Pixels of the picture, y upwards as in gnuplot; the plot proper, and the key to its right. */
enum {
    KVR_FIG_WIDTH = 1000,
    KVR_FIG_HEIGHT = 640,
    KVR_FIG_LEFT = 78,
    KVR_FIG_RIGHT = 808,
    KVR_FIG_BOTTOM = 104,
    KVR_FIG_TOP = 584,
    KVR_FIG_LINE = 14, /* height of a label */
    KVR_FIG_MARK = 6,  /* radius of a point's mark */
    KVR_FIG_MAX_TICKS = 16
};

struct kvr_fig_axis {
    const struct kvr_plot_axis *spec;
    double lo, hi; /* what is drawn */
    int n_ticks;
    double tick[KVR_FIG_MAX_TICKS];
};

struct kvr_fig_point {
    int row;
    double x, y; /* scaled; NaN where there is none */
    bool drawn, baseline;
    bool front;        /* nobody dominates it for sure, by the rule of pareto.h */
    bool corner;       /* of the line: by the means alone, which noise moves */
    bool named;        /* where points crowd, only some are */
    int family, shape; /* index into families; into kvr_fig_shapes */
    char *text;        /* owned: the method, and how many cells it has if not all */
};

struct kvr_figure {
    const struct kvr_plot_spec *spec;
    const struct kvr_table *rows;
    char *stem;       /* "pareto", "pareto-2"; owned */
    char *caption[2]; /* owned */
    int n;            /* points, by x, then y, then name */
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

/* Ranges and ticks from the drawn points. */
void kvr_fig_axes(struct kvr_figure *f);
double kvr_fig_px(const struct kvr_fig_axis *a, double v, int lo_px, int hi_px);
double kvr_fig_value(const struct kvr_fig_axis *a, double px, int lo_px, int hi_px);

/* Marks front and corner. Without a column `verdict` the means stand for both. */
void kvr_fig_front(struct kvr_figure *f);

/* Gives *rows the columns `verdict` and `p_front`, those of kvr_pareto() over the two axes, where
 * both have a better end and the rows say of which machine they are. */
enum kvr_status kvr_plot_verdicts(struct kvr_table **rows, const struct kvr_plot_spec *spec,
                                  const char *db_path);

/* Files below `dir`. */
enum kvr_status kvr_fig_write_data(const struct kvr_figure *f, const char *dir);
enum kvr_status kvr_fig_write_script(const struct kvr_figure *f, const char *dir, unsigned formats);

#endif
