/* fit_cache.h - budgets solved once in a plan, however many of its cells ask for them.
 *
 *     struct kvr_fit_cache f = { 0 };
 *     KVR_TRY(kvr_fit_cache_solve(&f, method, model, model_layers, frames, NULL, &fit));
 *     kvr_fit_cache_free(&f);
 *
 * An answer hangs on the method, the model's sizes and the frames; of prompts, seeds, windows and
 * repeats there may be thousands, and each budget is some forty dry rollouts. */
#ifndef KVR_PLAN_FIT_CACHE_H
#define KVR_PLAN_FIT_CACHE_H

#include "harness/plan/config.h"
#include "harness/plan/fit.h"

struct kvr_solved; /* of fits.c */

struct kvr_fit_cache {
    struct kvr_solved *solved; /* [n] */
    int n, at;                 /* `at`: where the last answer stood */
};

/* kvr_fit_solve() for the method's settings, or what it said before, refusals among it. The method
 * and the model are known by their addresses, which must stay. */
enum kvr_status kvr_fit_cache_solve(struct kvr_fit_cache *f, const struct kvr_config_method *m,
                                    const struct kvr_config_model *model, int model_layers,
                                    int frames, bool (*stopped)(void), struct kvr_fit *out);
void kvr_fit_cache_free(struct kvr_fit_cache *f); /* copes with {0} */

#endif
