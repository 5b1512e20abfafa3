/* baselines.h - chooses the default baselines of a sweep, which are INT8 and FP8 with a scale per
 * token and head, and BF16 sliding windows that need as many bytes as the sweep's methods.
 *
 *     KVR_TRY(kvr_baselines_make(&b, config));
 *     ... b.method[i] ...
 *
 * `baselines: auto` adds both 8-bit formats and one window to a sweep of at least three methods
 * besides BF16. Large sweeps get further windows, as long as baselines are at most a quarter of the
 * methods. Windows that match the size of the most methods are added first. `baselines: all` adds
 * all baselines, `baselines: none` adds none. A window as long as the cell's own attention window
 * is not added. */
#ifndef KVR_PLAN_BASELINES_H
#define KVR_PLAN_BASELINES_H

#include "harness/plan/config.h"

/* Maximum number of default baselines: two 8-bit formats, and BF16 windows with budgets below 16
 * bits per element. */
enum { KVR_MAX_BASELINES = 18 };
extern const char *const kvr_baseline_words[]; /* "auto", "all", "none", NULL */

/* Warning that is stored with each cell of a default baseline. */
extern const char kvr_baseline_note[];

struct kvr_baselines {
    int n;
    struct kvr_config_method method[KVR_MAX_BASELINES]; /* the added methods; their strings belong
                                                         * to the config's document */
    struct kvr_setting setting[KVR_MAX_BASELINES];      /* the option `frames` of a window
                                                         * baseline */
    char value[KVR_MAX_BASELINES][24]; /* text of the option `frames`, such as "fit 3"; `setting`
                                        * points here */
};

/* Chooses the baselines of a sweep. For each method, a sliding-window baseline of equal size is
 * added. The baseline's budget is the method's bits per element at head dimension 128, rounded up
 * to an integer, or exactly B for a method with `fit B`. Baselines that the sweep already lists are
 * not added. KVR_ENOMEM. */
enum kvr_status kvr_baselines_make(struct kvr_baselines *b, const struct kvr_config *c);

extern const char kvr_reference_plan[]; /* "BF16" */
/* Returns whether the method is BF16 without options, which is the baseline of every group. */
bool kvr_is_reference(const struct kvr_config_method *m);

#endif
