/* fit.h - solves an option for a memory budget.
 *
 *     options: {frames: [fit 2, fit 3]}        in a sweep's method
 *
 * `fit B` solves one option for B bits per element of a BF16 cache of the same frames. The solution
 * is the value with the most predicted bytes at the end of the rollout (kvr_predict) within that
 * budget. The prediction is exact if the size does not depend on the data. The window is ignored:
 * all frames are counted as stored. */
#ifndef KVR_PLAN_FIT_H
#define KVR_PLAN_FIT_H

#include "harness/cache/predict.h"
#include "methods/method.h"

enum { KVR_FIT_TEXT = 32 };

/* Parses the budget of a value "fit B"; false: an ordinary value. */
bool kvr_fit_asked(const char *value, double *bits);

struct kvr_fit {
    int at;                   /* index of the solved setting; -1: no setting has a budget */
    double bits;              /* budget of the solved setting, in bits per element */
    double predicted;         /* bits per element of the solved value */
    char value[KVR_FIT_TEXT]; /* replaces the setting's value */
};

/* Solves the option that has a budget, if there is one. KVR_EINVAL: more than one, a budget that is
 * not a positive number, or an unknown or non-numeric option. KVR_EUNSUPPORTED: every value of the
 * option exceeds the budget. KVR_EINTERRUPTED: `stopped` (NULL: never) returned true. */
enum kvr_status kvr_fit_solve(struct kvr_fit *out, const char *spec,
                              const struct kvr_setting *settings, int n_settings,
                              const struct kvr_geometry *geo, int frames, bool (*stopped)(void));

/* Measured lower bound of one solution's time, in core seconds; used to refuse large plans. */
double kvr_fit_seconds(const struct kvr_geometry *geo, int frames);

#endif
