/* baselines.h - chooses the default baselines of a sweep. They are quantization to INT8 and to FP8
 * with one scale per token and head, and BF16 caches with sliding windows. The size of each window
 * is chosen so that its cache has about as many bytes as the cache of one of the sweep's methods.
 *
 *     KVR_TRY(kvr_baselines_make(&b, config));
 *     ... b.method[i] ...
 *
 * `baselines: auto` adds default baselines if a sweep has n >= 3 methods besides BF16. Their number
 * is at most max(3, n / 4). INT8 and FP8 are added first. Sliding windows follow; a window that
 * matches the cache size of more methods comes earlier. `baselines: all` adds all default
 * baselines, `baselines: none` adds none. A default window that is not shorter than the cell's
 * attention window (setting `window`) would have no effect and is not added. */
#ifndef KVR_PLAN_BASELINES_H
#define KVR_PLAN_BASELINES_H

#include "harness/plan/config.h"

/* Maximum number of default baselines: the two 8-bit formats, and BF16 windows of up to 16
 * different sizes. */
enum { KVR_MAX_BASELINES = 18 };
extern const char *const kvr_baseline_words[]; /* "auto", "all", "none", NULL */

struct kvr_baselines {
    int n;
    struct kvr_config_method method[KVR_MAX_BASELINES]; /* added methods; no line of the config
                                                         * lists them, so error messages show the
                                                         * position of the YAML root
                                                         * (method[i].at) */
    struct kvr_setting setting[KVR_MAX_BASELINES];      /* option `frames` of method[i], if
                                                         * method[i] is a sliding-window cache */
    /* value of setting[i], such as "fit 3" for a budget of 3 bits per element */
    char value[KVR_MAX_BASELINES][24];
};

/* Chooses the default baselines of a sweep. A sliding window is as long as a memory budget allows
 * (`fit B`, fit.h). The budgets B are those of the sweep's methods. A method with an option value
 * `fit B` has the budget B. The budget of any other method is its cache size in bits per element,
 * rounded up to an integer, for a model with 12 heads of dimension 128 (Wan 1.3B). Methods with
 * tiers, retention or a cache size that depends on the data have no budget (kvr_scheme_bits). An
 * 8-bit format that the sweep already lists is not added. KVR_ENOMEM. */
enum kvr_status kvr_baselines_make(struct kvr_baselines *b, const struct kvr_config *c);

/* Returns whether the method is BF16 without options, with which all other methods are compared. */
bool kvr_is_reference(const struct kvr_config_method *m);

#endif
