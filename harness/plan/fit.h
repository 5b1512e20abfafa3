/* fit.h - solves an option for a memory budget.
 *
 *     options: {frames: [fit 2, fit 3]}        in a sweep's method
 *
 * The value `fit B` of an option is a budget of B bits per element of an uncoded cache of the same
 * frames. `fit B` is replaced by the option's value with the largest predicted cache size
 * (kvr_predict) within the budget. The prediction is exact if the size does not depend on the data.
 * The prediction assumes that all frames of the rollout are stored, whatever the attention
 * window. */
#ifndef KVR_PLAN_FIT_H
#define KVR_PLAN_FIT_H

#include "harness/cache/predict.h"
#include "methods/method.h"

enum { KVR_FIT_TEXT = 32 };

/* Parses a value "fit B" and sets *bits to B. The result is false for any other value. */
bool kvr_fit_asked(const char *value, double *bits);

struct kvr_fit {
    int at;                   /* index of the solved setting (-1: no setting has a budget) */
    double bits;              /* budget that the solved setting must meet, in bits per element */
    double predicted;         /* predicted bits per element with the solved value */
    char value[KVR_FIT_TEXT]; /* the solved value, which replaces the text "fit B" */
};

/* Solves the option whose value is `fit B`; if no option has a budget, sets out->at to -1.
 * KVR_EINVAL: several options have budgets, the budget is not a positive number, or the option is
 * unknown or not numeric. KVR_EUNSUPPORTED: every value of the option exceeds the budget.
 * KVR_EINTERRUPTED: the callback `stopped` (may be NULL) returned true. */
enum kvr_status kvr_fit_solve(struct kvr_fit *out, const char *spec,
                              const struct kvr_setting *settings, int n_settings,
                              const struct kvr_geometry *geo, int frames, bool (*stopped)(void));

/* Returns a lower bound on the time to solve one budget, in core seconds, from a measured rate. The
 * planner rejects a sweep if the sum of these bounds is too large. */
double kvr_fit_seconds(const struct kvr_geometry *geo, int frames);

#endif
