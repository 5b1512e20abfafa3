/* labels.h - where names stand beside points, so that they do not cover each other.
 *
 * Pixels, y upwards. Every label tries positions around its point, near ones first. It takes the one that
 * covers the least of other labels, points, lines and bars and is least ambiguous between points. A few rounds let earlier labels make room for later ones. The same
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
    int n_points;                    /* obstacles: first the marks, then other points */
    int n_marks; /* a label must not be nearer to another mark than to its own */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* intervals; overlapping one costs less than overlapping a line */
    const struct kvr_line *bars;
};

void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
