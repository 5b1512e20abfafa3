/* labels.h - where names stand beside points, so that they do not cover each other.
 *
 * Pixels, y upwards. Every label tries places around its point, near ones first, and takes the
 * one that covers least: of other labels, of points, of given lines and bars, and that reads least as
 * the name of another point. A few rounds let earlier labels make room for later ones. The same
 * input gives the same places. */
#ifndef KVR_REPORT_LABELS_H
#define KVR_REPORT_LABELS_H

#include "harness/core/status.h"

struct kvr_label {
    double x, y;         /* of the point */
    double width;        /* of the text */
    double left, bottom; /* out: lower left corner of the text */
    int leader;          /* out: far enough from its point to need a line to it ... */
    double end_x, end_y; /* out: ... which ends here, at the text's edge */
    int elsewhere;       /* out: still it reads as the name of another point */
};

struct kvr_line {
    double x0, y0, x1, y1;
};

struct kvr_label_field {
    double left, right, bottom, top; /* no text leaves this box */
    double height;                   /* of a line of text */
    double radius;                   /* of a point's mark */
    int n_points;                    /* to keep clear of: marks, and behind them other things */
    int n_marks;                     /* of these those that a name could be taken for */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* intervals: a name may stand on one sooner than on a line */
    const struct kvr_line *bars;
};

void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
