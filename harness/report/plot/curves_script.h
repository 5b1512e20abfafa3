/* curves_script.h - writes the data and the gnuplot script of one figure of curves.h. */
#ifndef KVR_PLOT_CURVES_SCRIPT_H
#define KVR_PLOT_CURVES_SCRIPT_H

#include "harness/report/plot/curves.h"

struct kvr_curve {
    const char *method, *family; /* strings borrowed from the table `rows` of the figure */
    bool baseline, named;
    int from, to; /* rows */
};

struct kvr_curves_figure {
    const struct kvr_curves_spec *spec;
    const struct kvr_plot_style *style;
    const struct kvr_table *rows;
    const char *settings, *host;
    char stem[192];
    int n;
    struct kvr_curve *curve;
};

/* Writes the data STEM.tsv and the script STEM.gp to the folder `dir`; STEM is f->stem. */
enum kvr_status kvr_curves_write(const struct kvr_curves_figure *f, const char *dir,
                                 unsigned formats);

#endif
