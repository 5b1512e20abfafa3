/* pareto_race.h - objectives and competing methods, shared by the pareto_*.c files. */
#ifndef KVR_PARETO_PARETO_RACE_H
#define KVR_PARETO_PARETO_RACE_H

#include <stdbool.h>

#include "harness/report/pareto/pareto.h"
#include "harness/report/table/published.h"
#include "harness/report/stats/front.h"
#include "harness/report/stats/nested.h"

enum { KVR_OBJECTIVES_MAX = 8, KVR_BOUNDS_MAX = 4 };

/* How the values of a method's cells are reduced to one number. MEAN is the mean over prompts.
 * HARMONIC is the harmonic mean over cells, HIGHEST the maximum over cells, and MIDDLE the median
 * over cells. */
enum kvr_gather { KVR_GATHER_MEAN, KVR_GATHER_HARMONIC, KVR_GATHER_HIGHEST, KVR_GATHER_MIDDLE };

struct kvr_objective {
    char name[64];
    const char *printed; /* name of the objective's column in the published tables of the
                          * 33-method study */
    int better;          /* direction of improvement, +1 for higher, -1 for lower */
    double margin;       /* non-inferiority margin, >= 0 */
    bool chaos;          /* whether `margin` is kvr_chaos_margin(), the difference of means that
                          * rounding errors can cause when they grow during a rollout */
    enum kvr_gather pool;
    bool is_column; /* of cells_wide */
    bool noisy;     /* whether the value varies between prompts, so that differences have confidence
                     * intervals */
    int column;     /* index of the objective among the requested objectives */
};

/* A bound on the mean of a metric. Methods that violate the bound are excluded from the
 * comparison. */
struct kvr_bound {
    char name[64];
    bool is_column; /* of cells_wide */
    int better;     /* +1 if the mean must be >= limit, -1 if it must be <= limit */
    double limit;
};

/* Parses bounds such as "ssim>=0.9,lpips<=0.2" into list [KVR_BOUNDS_MAX]. If `text` is NULL, the
 * list is empty. The allowed names are the names that kvr_objectives_parse accepts. */
enum kvr_status kvr_bounds_parse(struct kvr_bound *list, int *n, const char *text,
                                 const char *const *names, int n_names);

/* Parses objectives NAME:max or NAME:min, such as "ssim:max,peak_bytes:min", into list
 * [KVR_OBJECTIVES_MAX]. `text` may instead name a Pareto front of the 33-method study
 * (kvr_frontiers). NAME must be a column of the view cells_wide, a metric that kvreel can compute,
 * an objective of such a front, or one of `names` [n_names]. These are the names of the metrics in
 * the database, or of the columns of the published table. KVR_EINVAL: a name is unknown (the
 * message lists the allowed names). */
enum kvr_status kvr_objectives_parse(struct kvr_objective *list, int *n, const char *text,
                                     const char *const *names, int n_names);

/* Replaces the default margins of the objectives by the margins in the option o->margins. */
enum kvr_status kvr_objectives_margins(struct kvr_objective *list, int n,
                                       const struct kvr_pareto_options *o);

struct kvr_contender {
    const char *method, *settings; /* not owned: strings of `rows` or `published` in struct
                                    * kvr_race, or string literals */
    bool baseline, complete;
    double v[KVR_OBJECTIVES_MAX];
    double bound_v[KVR_BOUNDS_MAX];
    int beyond;                      /* index of the violated bound (-1: no bound is violated) */
    int from, to;                    /* range [from, to) of the method's cells in the table
                                      * `rows` of struct kvr_race */
    int n_seeds[KVR_OBJECTIVES_MAX]; /* number of the method's samples, one per prompt and seed, by
                                      * objective; 0 if the objective does not vary between
                                      * prompts */
    int n_rivals;                    /* number of other methods with the same settings that have all
                                      * objectives and violate no bound */
    int by, n_by;                    /* `by`: index of a method that dominates this method,
                                      * preferably one on the front (-1: none); `n_by`: number of
                                      * methods that dominate this method */
    int maybe, n_maybe;              /* `maybe`: index of a method that may dominate this method
                                      * (the confidence intervals do not decide), preferably one
                                      * on the front (-1: none); `n_maybe`: number of such
                                      * methods */
    double p_front;                  /* NaN: unknown */
};

struct kvr_race {
    const struct kvr_pareto_options *o;
    struct kvr_objective objective[KVR_OBJECTIVES_MAX];
    int n_objectives, n_asked; /* number of objectives with values; number of requested
                                * objectives */
    struct kvr_bound bound[KVR_BOUNDS_MAX];
    int n_bounds;
    char left_out[256]; /* objectives without any value */
    struct kvr_table *rows;
    struct kvr_published published;
    struct kvr_contender *who;
    int n;
    struct kvr_sample *samples; /* [n_asked, rows->n_rows]: samples of each requested objective, one
                                 * per prompt and seed; those of contender c start at index
                                 * c->from */
    signed char *dominance;     /* values [n, n] of enum kvr_dominance; entry [i, j] is the
                                 * dominance of method i over method j */
    int n_prompts;
};

/* Computes r->dominance for all pairs of methods. Then computes, for each method in r->who, the
 * fields n_rivals, by, n_by, maybe, n_maybe and p_front. */
enum kvr_status kvr_race_judge(struct kvr_race *r);

/* Writes the paired differences a - b of objective k over shared prompts to x, and returns their
 * number. Both x and the scratch array d must have room for one element per row (cell) of method
 * a. */
int kvr_race_differences(const struct kvr_race *r, const struct kvr_contender *a,
                         const struct kvr_contender *b, int k, struct kvr_sample *d, double *x);

enum kvr_status kvr_race_table(const struct kvr_race *r, struct kvr_table **out);

#endif
