/* baselines.h - default baselines of a sweep: INT8 and FP8 with a scale per token and head, and
 * BF16 windows shortened to the size of the sweep's methods.
 *
 *     KVR_TRY(kvr_baselines_make(&b, config));
 *     ... b.method[i] ...
 *
 * `baselines: auto` adds both 8-bit formats and one window to a sweep of at least three methods
 * besides BF16. It adds further windows as long as baselines are at most a quarter of the methods.
 * Windows whose size matches the most methods come first. `baselines: all` adds all baselines,
 * `baselines: none` adds none. A window as long as the cell's own is never added. */
#ifndef KVR_PLAN_BASELINES_H
#define KVR_PLAN_BASELINES_H

#include "harness/plan/config.h"

enum { KVR_MAX_BASELINES = 18 }; /* two 8-bit formats, and windows of 1 to 15 bits per element */
extern const char *const kvr_baseline_words[]; /* "auto", "all", "none", NULL */

/* Warning that is stored with each cell of a baseline. */
extern const char kvr_baseline_note[];

struct kvr_baselines {
    int n;
    struct kvr_config_method method[KVR_MAX_BASELINES]; /* borrow from the config's document */
    struct kvr_setting setting[KVR_MAX_BASELINES];      /* the options of a window ... */
    char value[KVR_MAX_BASELINES][24]; /* ... and their text, "fit 3"; must not move */
};

/* Windows match the bits per element of the listed methods at 128 channels, rounded up to whole
 * bits; a budget in the sweep (`fit 2.5`) is used unchanged. Baselines that the sweep lists itself
 * are not added. KVR_ENOMEM. */
enum kvr_status kvr_baselines_make(struct kvr_baselines *b, const struct kvr_config *c);

extern const char kvr_reference_plan[]; /* "BF16" */
/* Whether the method is BF16 without options, the baseline of every group. */
bool kvr_is_reference(const struct kvr_config_method *m);

#endif
