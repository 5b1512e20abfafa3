/* fit.h - an option solved for a budget of bytes.
 *
 *     options: {frames: [fit 2, fit 3]}        in a sweep's method
 *
 * `fit B` solves one option: the value with the most predicted bytes at the end of the rollout within B bits
 * per element of a BF16 cache of the same frames (kvr_predict). It is exact where bytes do not depend on
 * the data. The window plays no part: all frames
 * are counted as held. */
#ifndef KVR_PLAN_FIT_H
#define KVR_PLAN_FIT_H

#include "harness/cache/predict.h"
#include "methods/method.h"

enum { KVR_FIT_TEXT = 32 };

/* The budget that a value asks for; false: it is an ordinary value. */
bool kvr_fit_asked(const char *value, double *bits);

struct kvr_fit {
    int at;                   /* which setting was solved; -1: none */
    double bits;              /* its budget */
    double predicted;         /* what its value comes to */
    char value[KVR_FIT_TEXT]; /* in the setting's place */
};

/* Solves the setting that asks for it; one at most. KVR_EINVAL: more than one, a budget that is no
 * number above 0, or an option that is neither a number nor there. KVR_EUNSUPPORTED: no value of
 * the option takes so little. KVR_EINTERRUPTED: `stopped` (NULL: never) said so. */
enum kvr_status kvr_fit_solve(struct kvr_fit *out, const char *spec,
                              const struct kvr_setting *settings, int n_settings,
                              const struct kvr_geometry *geo, int frames, bool (*stopped)(void));

/* Seconds that one solution takes at the least, of a core: measured, and to be refused by. */
double kvr_fit_seconds(const struct kvr_geometry *geo, int frames);

#endif
