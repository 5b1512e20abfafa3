/* pareto_race.h - what the files of pareto.h share: objectives, and who takes part. */
#ifndef KVR_REPORT_PARETO_RACE_H
#define KVR_REPORT_PARETO_RACE_H

#include <stdbool.h>

#include "harness/report/pareto.h"
#include "harness/report/published.h"
#include "harness/report/front.h"
#include "harness/report/nested.h"

enum { KVR_OBJECTIVES_MAX = 8, KVR_BOUNDS_MAX = 4 };

/* How the cells of a method become one number. MEAN: over prompts. */
enum kvr_gather { KVR_GATHER_MEAN, KVR_GATHER_HARMONIC, KVR_GATHER_HIGHEST, KVR_GATHER_MIDDLE };

struct kvr_objective {
    char name[64];
    const char *printed; /* its column in the published tables */
    int better;          /* +1, -1 */
    double margin;       /* of non-inferiority, >= 0 */
    bool chaos;          /* the margin is what draws alone do to a mean */
    enum kvr_gather pool;
    bool is_column; /* of cells_wide */
    bool noisy;     /* differs from prompt to prompt for no fault of the method's */
    int column;     /* which of the objectives that were asked for */
};

/* What a method's mean has to keep to, to take part. */
struct kvr_bound {
    char name[64];
    bool is_column; /* of cells_wide */
    int better;     /* +1: limit or more, -1: limit or less */
    double limit;
};

/* Reads "NAME>=VALUE,NAME<=VALUE" into list [KVR_BOUNDS_MAX]; NULL: none. Names as of objectives. */
enum kvr_status kvr_bounds_parse(struct kvr_bound *list, int *n, const char *text,
                                 const char *const *names, int n_names);

/* Reads `text`, NAME:max or NAME:min joined by commas or the name of a frontier; into list
 * [KVR_OBJECTIVES_MAX]. A name must be a column that is known, a metric, one of a frontier's, or
 * one of `names`, what was measured; else KVR_EINVAL, naming them. */
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
    int beyond;                      /* which bound it lies beyond; -1: none */
    int from, to;                    /* its rows */
    int n_seeds[KVR_OBJECTIVES_MAX]; /* its samples, of the objectives that are noisy */
    int n_rivals;                    /* complete, of the same settings */
    int by, n_by;                    /* who dominates it: one, best on the front; how many */
    int maybe, n_maybe;              /* of whom that is undecided */
    double p_front;                  /* NaN: cannot be told */
};

struct kvr_race {
    const struct kvr_pareto_options *o;
    struct kvr_objective objective[KVR_OBJECTIVES_MAX];
    int n_objectives, n_asked; /* that are left, that were asked for */
    struct kvr_bound bound[KVR_BOUNDS_MAX];
    int n_bounds;
    char left_out[256]; /* objectives without any value */
    struct kvr_table *rows;
    struct kvr_published published;
    struct kvr_contender *who;
    int n;
    struct kvr_sample *samples; /* [objectives asked for, rows]: a contender's from its first row */
    signed char *dominance;     /* [n, n]: of the first over the second, enum kvr_dominance */
    int n_prompts;
};

/* Fills dominance and of each contender n_rivals, by, maybe, p_front. */
enum kvr_status kvr_race_judge(struct kvr_race *r);

/* Differences a - b of objective k over the prompts that both have, d and x of room for the rows of
 * one of them; how many. x [n] is what is left. */
int kvr_race_differences(const struct kvr_race *r, const struct kvr_contender *a,
                         const struct kvr_contender *b, int k, struct kvr_sample *d, double *x);

enum kvr_status kvr_race_table(const struct kvr_race *r, struct kvr_table **out);

#endif
