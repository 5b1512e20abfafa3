/* labels.h - places the labels of points so that they do not overlap.
 *
 * Positions are in pixels, y upwards. Each label tries positions around its point, nearest first.
 * The label is placed at the position with the least overlap with labels, points, lines and bars.
 * Positions where a reader could mistake the label for the label of another point are penalized.
 * After all labels are placed, each is placed again six times, so that labels placed early can
 * avoid labels placed later. The result is deterministic. */
#ifndef KVR_PLOT_LABELS_H
#define KVR_PLOT_LABELS_H

#include "harness/core/status.h"

struct kvr_label {
    double x, y;         /* position of the point */
    double width;        /* width of the text */
    double left, bottom; /* lower left corner of the text, computed by kvr_labels_place */
    int leader;          /* nonzero if the label is far from its point and needs a leader line */
    double end_x, end_y; /* end of the leader line at the text's edge */
    int elsewhere;       /* nonzero if a reader could mistake the label for the label of another
                          * point, because its mark is about as near */
};

struct kvr_line {
    double x0, y0, x1, y1;
};

struct kvr_label_field {
    double left, right, bottom, top; /* edges of the area in which labels should be */
    double height;                   /* height of a line of text in pixels */
    double radius;                   /* radius of a point's mark in pixels */
    int n_points;                    /* number of marks and other positions (px, py) that labels
                                      * avoid; the first n_marks are marks of points */
    int n_marks;                     /* number of marks; a label nearer to another mark than to its
                                      * own is penalized */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* number of interval bars, which labels avoid less strictly than `lines` */
    const struct kvr_line *bars;
};

/* Chooses the positions of labels [n]. The caller sets x, y and width of each label; the function
 * sets the other fields. */
void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
