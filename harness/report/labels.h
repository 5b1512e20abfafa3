/* labels.h - places the labels of points so that they do not overlap.
 *
 * Positions are in pixels, y upwards. Each label tries positions around its point, nearest first,
 * and takes the one that overlaps labels, points, lines and bars the least and is least ambiguous
 * between points. A few rounds let earlier labels make room for later ones. Deterministic. */
#ifndef KVR_REPORT_LABELS_H
#define KVR_REPORT_LABELS_H

#include "harness/core/status.h"

struct kvr_label {
    double x, y;         /* position of the point */
    double width;        /* width of the text */
    double left, bottom; /* out: lower left corner of the text */
    int leader;          /* out: the label is far from its point and needs a line to it ... */
    double end_x, end_y; /* out: ... which ends here, at the text's edge */
    int elsewhere;       /* out: no free place; the label is nearer to another point */
};

struct kvr_line {
    double x0, y0, x1, y1;
};

struct kvr_label_field {
    double left, right, bottom, top; /* labels stay inside this box */
    double height;                   /* height of a line of text */
    double radius;                   /* radius of a point's mark */
    int n_points;                    /* obstacles: first the marks, then other points */
    int n_marks;                     /* a label must be nearer to its own mark than to any other */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* intervals; overlapping one costs less than overlapping a line */
    const struct kvr_line *bars;
};

/* Chooses a position for each of n labels around its point, so that labels, marks, lines and bars overlap
 * least; sets `left` and `bottom`, and `elsewhere` where another mark is nearer. */
void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
