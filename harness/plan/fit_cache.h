/* fit_cache.h - caches option values that were found for memory budgets (fit.h), so that a plan
 * searches once per budget and not once per cell.
 *
 *     struct kvr_fit_cache f = { 0 };
 *     KVR_TRY(kvr_fit_cache_solve(&f, method, model, model_layers, frames, NULL, &fit));
 *     kvr_fit_cache_free(&f);
 *
 * The option value depends on the method, the model's sizes and the number of frames, but not on
 * prompt, seed, window or repeat. One search takes about forty predictions of the cache size. */
#ifndef KVR_PLAN_FIT_CACHE_H
#define KVR_PLAN_FIT_CACHE_H

#include "harness/plan/config.h"
#include "harness/plan/fit.h"

struct kvr_solved; /* defined in fit_cache.c */

struct kvr_fit_cache {
    struct kvr_solved *solved; /* [n] */
    int n, at; /* number of entries of `solved`; index of the entry that the last lookup found */
};

/* Returns the cached value or error for these arguments, or calls kvr_fit_solve() and caches its
 * result. Methods and models are compared by address. */
enum kvr_status kvr_fit_cache_solve(struct kvr_fit_cache *f, const struct kvr_config_method *m,
                                    const struct kvr_config_model *model, int model_layers,
                                    int frames, bool (*stopped)(void), struct kvr_fit *out);
void kvr_fit_cache_free(struct kvr_fit_cache *f); /* accepts {0} */

#endif
