/* labels.h - places the labels of points so that they do not overlap.
 *
 * Positions are in pixels, y upwards. Each label tries positions around its point, nearest first.
 * The label is placed at the position with the least overlap with labels, points, lines and bars.
 * Positions where a reader could mistake the label for the label of another point are penalized.
 * The placement repeats for a few rounds, so that labels placed early move away from labels placed
 * later. The result is deterministic. */
#ifndef KVR_PLOT_LABELS_H
#define KVR_PLOT_LABELS_H

#include "harness/core/status.h"

struct kvr_label {
    double x, y;         /* position of the point */
    double width;        /* width of the text */
    double left, bottom; /* lower left corner of the text, computed by kvr_labels_place */
    int leader;          /* nonzero if the label is far from its point and needs a leader line */
    double end_x, end_y; /* end of the leader line at the text's edge */
    int elsewhere;       /* nonzero if the label is nearer to another point's mark than to its
                          * own */
};

struct kvr_line {
    double x0, y0, x1, y1;
};

struct kvr_label_field {
    double left, right, bottom, top; /* area for labels; a label outside it is penalized */
    double height;                   /* height of a line of text in pixels */
    double radius;                   /* radius of a point's mark in pixels */
    int n_points;                    /* number of positions (px, py) that labels avoid; the first
                                      * n_marks are marks of points */
    int n_marks;                     /* number of marks; a label must be nearer to its own mark than
                                      * to any other mark */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* interval bars; overlap with a bar costs less than overlap with a line */
    const struct kvr_line *bars;
};

/* Chooses the positions of n labels, and sets the fields left, bottom, leader, end_x, end_y and
 * elsewhere. */
void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
