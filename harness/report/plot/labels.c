/* labels.c - places labels greedily, then places each label again several times. See labels.h. */
#include "harness/report/plot/labels.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct box {
    double x0, y0, x1, y1;
};

/* Directions from a point to its label, preferred ones first: right and left, corners, above and
 * below. */
static const struct direction {
    double dx, dy; /* unit steps */
    double part;   /* fraction of the text's width that is left of the label's anchor */
    double cost;
} directions[] = {
    { 1, 0, 0, 0.0 },         { -1, 0, 1, 1.0 },         { 0.7, 0.7, 0, 0.5 },
    { 0.7, -0.7, 0, 0.5 },    { -0.7, 0.7, 1, 1.5 },     { -0.7, -0.7, 1, 1.5 },
    { 0, 1, 0.5, 2.0 },       { 0, -1, 0.5, 2.0 },       { 0, 1, 0.25, 2.2 },
    { 0, -1, 0.25, 2.2 },     { 0, 1, 0.75, 2.4 },       { 0, -1, 0.75, 2.4 },
    { 0.9, 0.4, 0, 2.5 },     { 0.9, -0.4, 0, 2.5 },     { -0.9, 0.4, 1, 2.5 },
    { -0.9, -0.4, 1, 2.5 },   { 0.4, 0.9, 0.25, 3.0 },   { 0.4, -0.9, 0.25, 3.0 },
    { -0.4, 0.9, 0.75, 3.2 }, { -0.4, -0.9, 0.75, 3.2 },
};
enum { N_DIRECTIONS = sizeof directions / sizeof directions[0], ROUNDS = 6 };

static const double gaps[] = { 4, 9, 15, 22, 30, 40, 52, 66, 84, 104, 128, 156 };
enum { N_GAPS = sizeof gaps / sizeof gaps[0], NEAR_GAPS = 3 };
static const double leader_cost = 6; /* of a leader line that the distance does not require */

static struct box text_box(const struct kvr_label *l, double height)
{
    return (struct box){ l->left, l->bottom, l->left + l->width, l->bottom + height };
}

static double overlap(const struct box *a, const struct box *b)
{
    double w = fmin(a->x1, b->x1) - fmax(a->x0, b->x0);
    double h = fmin(a->y1, b->y1) - fmax(a->y0, b->y0);

    return w > 0 && h > 0 ? w * h : 0.0;
}

/* Returns the length of the part of a segment that is inside a box (Liang and Barsky 1984). */
static double inside(const struct kvr_line *s, const struct box *b)
{
    double dx = s->x1 - s->x0, dy = s->y1 - s->y0, t0 = 0.0, t1 = 1.0;
    const double p[4] = { -dx, dx, -dy, dy };
    const double q[4] = { s->x0 - b->x0, b->x1 - s->x0, s->y0 - b->y0, b->y1 - s->y0 };

    for (int i = 0; i < 4; i++) {
        if (p[i] == 0.0) {
            if (q[i] < 0.0)
                return 0.0;
        } else if (p[i] < 0.0) {
            t0 = fmax(t0, q[i] / p[i]);
        } else {
            t1 = fmin(t1, q[i] / p[i]);
        }
    }
    return t1 > t0 ? (t1 - t0) * hypot(dx, dy) : 0.0;
}

static double clamp(double v, double lo, double hi)
{
    return fmax(lo, fmin(v, hi));
}

/* Position of a label relative to its point: indices into directions and gaps, and whether it has a
 * leader line. */
struct place {
    int d, g, leader;
};

/* Places a label. The distance between the mark and the label's nearest edge or corner is gaps[g]
 * pixels. A text beside its mark that would protrude from the field at the top or bottom is moved
 * into it, as is a text above or below its mark that would protrude at the left or right. */
static void set_position(struct kvr_label *l, const struct kvr_label_field *f, struct place at)
{
    const struct direction *dir = &directions[at.d];
    double off = f->radius + gaps[at.g];

    l->left = l->x + dir->dx * off - dir->part * l->width;
    l->bottom = l->y + dir->dy * off -
                (dir->dy > 0   ? 0.0
                 : dir->dy < 0 ? f->height
                               : f->height / 2);
    if (dir->dy == 0)
        l->bottom = clamp(l->bottom, f->bottom, f->top - f->height);
    if (dir->dx == 0)
        l->left = clamp(l->left, f->left, fmax(f->left, f->right - l->width));
    l->leader = at.leader;
    l->end_x = fmin(fmax(l->x, l->left), l->left + l->width);
    l->end_y = l->end_x == l->x ? fmin(fmax(l->y, l->bottom), l->bottom + f->height)
                                : l->bottom + f->height / 2;
}

static struct kvr_line leader_of(const struct kvr_label *l)
{
    return (struct kvr_line){ l->x, l->y, l->end_x, l->end_y };
}

static double distance(const struct box *b, double x, double y)
{
    return hypot(fmax(fmax(b->x0 - x, x - b->x1), 0.0), fmax(fmax(b->y0 - y, y - b->y1), 0.0));
}

/* Returns the number of other points to which a reader could assign the label. Without a leader
 * line, these are points less than 3 pixels farther from the label than the label's own point. With
 * a leader line, they are points within a small fixed distance of the label. */
static int n_misread(const struct kvr_label *l, const struct box *b,
                     const struct kvr_label_field *f)
{
    const double reach = l->leader ? f->radius + gaps[1] : distance(b, l->x, l->y) + 3.0;
    int n = 0;

    for (int i = 0; i < f->n_marks; i++)
        n += (f->px[i] != l->x || f->py[i] != l->y) && distance(b, f->px[i], f->py[i]) < reach;
    return n;
}

/* Returns whether two segments cross, that is, whether the ends of each segment are on different
 * sides of the other segment. */
static bool cross(const struct kvr_line *a, const struct kvr_line *b)
{
    const double ux = a->x1 - a->x0, uy = a->y1 - a->y0, vx = b->x1 - b->x0, vy = b->y1 - b->y0;
    const double a0 = ux * (b->y0 - a->y0) - uy * (b->x0 - a->x0);
    const double a1 = ux * (b->y1 - a->y0) - uy * (b->x1 - a->x0);
    const double b0 = vx * (a->y0 - b->y0) - vy * (a->x0 - b->x0);
    const double b1 = vx * (a->y1 - b->y0) - vy * (a->x1 - b->x0);

    return a0 * a1 < 0 && b0 * b1 < 0;
}

/* Returns the length of the part of a leader line that is within 2 pixels of a horizontal or
 * vertical line. A leader line that follows another line is invisible. */
static double along(const struct kvr_line *leader, const struct kvr_line *s)
{
    const struct box near = { fmin(s->x0, s->x1) - 2, fmin(s->y0, s->y1) - 2,
                              fmax(s->x0, s->x1) + 2, fmax(s->y0, s->y1) + 2 };

    return inside(leader, &near);
}

/* Returns the cost of a label on an interval bar, and of a leader line along the bar. A label
 * without leader line on the bar of another point could be assigned to that point. */
static double bar_cost(const struct kvr_label *l, const struct kvr_line *leader,
                       const struct kvr_line *bar, const struct box *text)
{
    const bool own = (bar->x0 == l->x && bar->x1 == l->x) || (bar->y0 == l->y && bar->y1 == l->y);
    const double covered = inside(bar, text);

    return 2.0 * covered + (l->leader ? 3.0 * along(leader, bar) : 0.0) +
           (covered > 0 && !own && !l->leader ? 30.0 : 0.0);
}

static double cost(const struct kvr_label *labels, int n_placed, int self,
                   const struct kvr_label_field *f)
{
    const struct kvr_label *l = &labels[self];
    struct box b = text_box(l, f->height);
    struct kvr_line own = leader_of(l), other;
    double c = 0.0;

    if (b.x0 < f->left || b.x1 > f->right || b.y0 < f->bottom || b.y1 > f->top)
        c += 1e6;
    for (int i = 0; i < n_placed; i++) {
        struct box o = text_box(&labels[i], f->height);

        if (i == self)
            continue;
        c += 20.0 * overlap(&b, &o);
        other = leader_of(&labels[i]);
        if (labels[i].leader)
            c += 3.0 * inside(&other, &b);
        if (l->leader)
            c += 3.0 * inside(&own, &o);
        if (l->leader && labels[i].leader && cross(&own, &other))
            c += 20.0;
    }
    c += 100.0 * n_misread(l, &b, f);
    for (int i = 0; i < f->n_points; i++) {
        struct box mark = { f->px[i] - f->radius, f->py[i] - f->radius, f->px[i] + f->radius,
                            f->py[i] + f->radius };

        c += 10.0 * overlap(&b, &mark);
        if (l->leader && (f->px[i] != l->x || f->py[i] != l->y))
            c += 20.0 * inside(&own, &mark); /* penalty: the leader line crosses another mark */
    }
    for (int i = 0; i < f->n_lines; i++)
        c += 4.0 * inside(&f->lines[i], &b) + (l->leader ? 3.0 * along(&own, &f->lines[i]) : 0.0);
    for (int i = 0; i < f->n_bars; i++)
        c += bar_cost(l, &own, &f->bars[i], &b);
    return c;
}

/* Moves label `self` to its best place and returns the cost of this place. */
static double settle(struct kvr_label *labels, int n_placed, int self,
                     const struct kvr_label_field *f)
{
    double best = INFINITY;
    struct place at, found = { 0 };

    for (at.g = 0; at.g < N_GAPS; at.g++)
        for (at.d = 0; at.d < N_DIRECTIONS; at.d++)
            for (at.leader = at.g >= NEAR_GAPS; at.leader <= (at.g > 0); at.leader++) {
                double c = fmin(gaps[at.g], 15 + 0.4 * gaps[at.g]) + 4.0 * directions[at.d].cost +
                           (at.leader && at.g < NEAR_GAPS ? leader_cost : 0);

                if (c >= best)
                    continue;
                set_position(&labels[self], f, at);
                c += cost(labels, n_placed, self, f);
                if (c < best) {
                    best = c;
                    found = at;
                }
            }
    set_position(&labels[self], f, found);
    return best;
}

/* Places all labels in the order of the array, then each again, and returns the sum of the costs. */
static double place_in_order(struct kvr_label *labels, int n, const struct kvr_label_field *f)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        settle(labels, i, i, f);
    for (int round = 0; round < ROUNDS; round++) {
        sum = 0;
        for (int i = 0; i < n; i++)
            sum += settle(labels, n, i, f);
    }
    return sum;
}

enum { ORDERS = 8, ORDERS_UP_TO = 30 };

/* Places the labels in several orders and keeps the best result. The first order is that of the
 * array, and the others are pseudorandom (a linear congruential generator shuffles). */
static void place_in_orders(struct kvr_label *labels, int n, const struct kvr_label_field *f)
{
    struct kvr_label tried[ORDERS_UP_TO], found[ORDERS_UP_TO];
    int index[ORDERS_UP_TO];
    uint32_t state = 1;
    double best = INFINITY;

    for (int i = 0; i < n; i++) {
        index[i] = i;
        found[i] = labels[i];
    }
    for (int order = 0; order < ORDERS; order++) {
        double sum;

        for (int i = 0; i < n; i++)
            tried[i] = labels[index[i]];
        sum = place_in_order(tried, n, f);
        for (int i = 0; sum < best && i < n; i++)
            found[index[i]] = tried[i];
        best = fmin(best, sum);
        for (int i = n - 1; i > 0; i--) {
            const int j = (int)((state >> 16) % (uint32_t)(i + 1)), swapped = index[i];

            state = state * 1664525u + 1013904223u;
            index[i] = index[j];
            index[j] = swapped;
        }
    }
    for (int i = 0; i < n; i++)
        labels[i] = found[i];
}

void kvr_labels_place(struct kvr_label *labels, int n, const struct kvr_label_field *f)
{
    if (n <= ORDERS_UP_TO)
        place_in_orders(labels, n, f);
    else
        place_in_order(labels, n, f);
    for (int i = 0; i < n; i++) {
        struct box b = text_box(&labels[i], f->height);

        labels[i].elsewhere = n_misread(&labels[i], &b, f) > 0;
    }
}
