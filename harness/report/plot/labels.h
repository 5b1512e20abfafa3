/* labels.h - places the labels of points so that they do not overlap.
 *
 * Positions are in pixels, y upwards. Each label tries positions around its point, nearest first.
 * The label is placed at the position with the least overlap with other labels, markers of points,
 * the lines of the Pareto front, and interval bars. Positions where a reader could mistake the
 * label for the label of another point are penalized. After all labels are placed, each is placed
 * again six times, so that labels placed early can avoid labels placed later. Up to 30 labels are
 * placed in eight orders, and the result of least cost is kept. The result is deterministic. */
#ifndef KVR_PLOT_LABELS_H
#define KVR_PLOT_LABELS_H

#include "harness/core/status.h"

struct kvr_label {
    double x, y;         /* position of the data point that the label names */
    double width;        /* width of the label's text in pixels */
    double left, bottom; /* lower left corner of the text, computed by kvr_labels_place */
    int leader;          /* nonzero if the label needs a leader line, because it is far from its
                          * point or could be mistaken for the label of another point */
    double end_x, end_y; /* end of the leader line at the text's edge */
    int elsewhere;       /* nonzero if a reader could assign the label to another point, because
                          * that point's marker is about as near to the label */
};

struct kvr_line {
    double x0, y0, x1, y1;
};

struct kvr_label_field {
    double left, right, bottom, top; /* edges of the area in which labels should be */
    double height;                   /* height of a line of text in pixels */
    double radius;                   /* radius of a point's marker in pixels */
    int n_points;                    /* length of px and py, positions that labels avoid: first the
                                      * n_marks markers of points, then positions on other text,
                                      * such as the label of the chaos floor */
    int n_marks;                     /* number of markers; positions of a label about as near to
                                      * another point's marker as to its own point's are
                                      * penalized */
    const double *px, *py;
    int n_lines;
    const struct kvr_line *lines;
    int n_bars; /* number of interval bars; overlap with them is penalized half as much as overlap
                 * with `lines` */
    const struct kvr_line *bars;
};

/* Chooses the positions of labels [n]. The caller sets the fields x, y and width of each label; the
 * function sets the remaining fields of struct kvr_label. */
void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f);

#endif
