/* pareto_race.h - objectives and contenders, shared by the pareto_*.c files. */
#ifndef KVR_REPORT_PARETO_RACE_H
#define KVR_REPORT_PARETO_RACE_H

#include <stdbool.h>

#include "harness/report/pareto.h"
#include "harness/report/published.h"
#include "harness/report/front.h"
#include "harness/report/nested.h"

enum { KVR_OBJECTIVES_MAX = 8, KVR_BOUNDS_MAX = 4 };

/* Aggregation of a method's cells to one number. MEAN: over prompts. */
enum kvr_gather { KVR_GATHER_MEAN, KVR_GATHER_HARMONIC, KVR_GATHER_HIGHEST, KVR_GATHER_MIDDLE };

struct kvr_objective {
    char name[64];
    const char *printed; /* the objective's column in published tables */
    int better;          /* +1: higher is better, -1: lower is better */
    double margin;       /* non-inferiority margin, >= 0 */
    bool chaos;          /* the margin is the chaos part (chaos.h) */
    enum kvr_gather pool;
    bool is_column; /* of cells_wide */
    bool noisy;     /* varies between prompts independently of the method */
    int column;     /* index among the requested objectives */
};

/* A bound on a method's mean; methods beyond it do not compete. */
struct kvr_bound {
    char name[64];
    bool is_column; /* of cells_wide */
    int better;     /* +1: limit or more, -1: limit or less */
    double limit;
};

/* Parses "NAME>=VALUE,NAME<=VALUE" into list [KVR_BOUNDS_MAX]; `text` NULL gives no bounds. Names
 * are those of kvr_objectives_parse. */
enum kvr_status kvr_bounds_parse(struct kvr_bound *list, int *n, const char *text,
                                 const char *const *names, int n_names);

/* Parses NAME:max or NAME:min joined by commas, or the name of a frontier, into list
 * [KVR_OBJECTIVES_MAX]. A name must be a known column, a metric, an objective of a frontier, or in
 * `names`, the measured metrics. KVR_EINVAL lists the allowed names. */
enum kvr_status kvr_objectives_parse(struct kvr_objective *list, int *n, const char *text,
                                     const char *const *names, int n_names);

/* Overrides default margins with the user's. */
enum kvr_status kvr_objectives_margins(struct kvr_objective *list, int n,
                                       const struct kvr_pareto_options *o);

struct kvr_contender {
    const char *method, *settings; /* borrowed from the rows */
    bool baseline, complete;
    double v[KVR_OBJECTIVES_MAX];
    double bound_v[KVR_BOUNDS_MAX];
    int beyond;                      /* index of the violated bound; -1: all bounds hold */
    int from, to;                    /* rows of the contender: [from, to) */
    int n_seeds[KVR_OBJECTIVES_MAX]; /* number of the contender's samples of each noisy objective */
    int n_rivals;                    /* complete methods with the same settings */
    int by, n_by;                    /* the best method that dominates this one; the number of
                                      * methods that do */
    int maybe, n_maybe;              /* likewise, of methods for which dominance over this one is
                                      * undecided */
    double p_front;                  /* NaN: unknown */
};

struct kvr_race {
    const struct kvr_pareto_options *o;
    struct kvr_objective objective[KVR_OBJECTIVES_MAX];
    int n_objectives, n_asked; /* objectives with values; requested objectives */
    struct kvr_bound bound[KVR_BOUNDS_MAX];
    int n_bounds;
    char left_out[256]; /* objectives without any value */
    struct kvr_table *rows;
    struct kvr_published published;
    struct kvr_contender *who;
    int n;
    struct kvr_sample *samples; /* [objectives, rows]; a contender's samples start at its first
                                 * row */
    signed char *dominance; /* [n, n]: of the first method over the second, enum kvr_dominance */
    int n_prompts;
};

/* Fills `dominance`, and n_rivals, by, maybe and p_front of each contender. */
enum kvr_status kvr_race_judge(struct kvr_race *r);

/* Differences a - b of objective k over shared prompts, into x; returns their number. d and x have room for one
 * contender's rows. */
int kvr_race_differences(const struct kvr_race *r, const struct kvr_contender *a,
                         const struct kvr_contender *b, int k, struct kvr_sample *d, double *x);

enum kvr_status kvr_race_table(const struct kvr_race *r, struct kvr_table **out);

#endif
