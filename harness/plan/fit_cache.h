/* fit_cache.h - solves each budget once per plan, for all of its cells.
 *
 *     struct kvr_fit_cache f = { 0 };
 *     KVR_TRY(kvr_fit_cache_solve(&f, method, model, model_layers, frames, NULL, &fit));
 *     kvr_fit_cache_free(&f);
 *
 * A solution depends on the method, the model's sizes and the frames, not on prompts, seeds, windows or
 * repeats. Each solution takes about forty predictions. */
#ifndef KVR_PLAN_FIT_CACHE_H
#define KVR_PLAN_FIT_CACHE_H

#include "harness/plan/config.h"
#include "harness/plan/fit.h"

struct kvr_solved; /* defined in fits.c */

struct kvr_fit_cache {
    struct kvr_solved *solved; /* [n] */
    int n, at;                 /* `at`: index of the last hit */
};

/* kvr_fit_solve() for the method's settings, or the cached solution or error. Methods and models are compared
 * by address. */
enum kvr_status kvr_fit_cache_solve(struct kvr_fit_cache *f, const struct kvr_config_method *m,
                                    const struct kvr_config_model *model, int model_layers,
                                    int frames, bool (*stopped)(void), struct kvr_fit *out);
void kvr_fit_cache_free(struct kvr_fit_cache *f); /* accepts {0} */

#endif
