/* fit.h - finds the value of a method's option that meets a memory budget.
 *
 *     options: {frames: [fit 2, fit 3]}        in a sweep's method
 *
 * The value `fit B` of an option is a budget of B bits per element. The elements are the keys and
 * values that an uncompressed cache of the same frames would contain. The planner replaces `fit B`
 * by the value with the largest predicted cache size within the budget (kvr_predict_peak). The
 * prediction is exact if the size of the compressed cache does not depend on its content. The
 * prediction assumes that all frames of the rollout are stored, whatever the attention window. */
#ifndef KVR_PLAN_FIT_H
#define KVR_PLAN_FIT_H

#include "harness/cache/predict.h"
#include "methods/method.h"

/* KVR_FIT_MOST: maximum budget in bits per element, which is that of an uncompressed cache. */
enum { KVR_FIT_TEXT = 32, KVR_FIT_MOST = 16 };

/* Returns whether an option's value is a memory budget "fit B", and sets *bits to B in bits per
 * element, or to NAN if B is not a number. */
bool kvr_fit_asked(const char *value, double *bits);

struct kvr_fit {
    int at;                   /* index of the option with a budget (-1: no option has a budget) */
    double bits;              /* the budget B, in bits per element */
    double predicted;         /* predicted cache size for the option value `value`, in bits per
                               * element */
    char value[KVR_FIT_TEXT]; /* the option's value that meets the budget, as text; replaces
                               * "fit B" */
};

/* Finds the option in `settings` that has the value `fit B`, and sets out->at to its index. Sets
 * out->value to the option value with the largest predicted cache size within the budget B. If no
 * option has a budget, sets out->at to -1 and does nothing else. KVR_EINVAL: several options have
 * budgets, the budget is not in (0, KVR_FIT_MOST] bits per element, or the option is unknown or not
 * numeric. KVR_EUNSUPPORTED: no value of the option meets the budget. KVR_EINTERRUPTED: the
 * callback `stopped` (may be NULL) returned true. */
enum kvr_status kvr_fit_solve(struct kvr_fit *out, const char *spec,
                              const struct kvr_setting *settings, int n_settings,
                              const struct kvr_geometry *geo, int frames, bool (*stopped)(void));

/* Estimates how long kvr_fit_solve() takes for one memory budget, in seconds of one CPU core. The
 * estimate assumes a bisection with 42 predictions of the cache size. For every chunk, a prediction
 * visits all earlier tokens, at a measured 20 ns per token. The planner rejects a sweep if these
 * estimates sum to more than 600 s. */
double kvr_fit_seconds(const struct kvr_geometry *geo, int frames);

#endif
