/* baselines.h - default baselines of a sweep: INT8 and FP8 with a scale per token and head, and shorter
 * BF16 windows that take the bytes of the sweep's methods.
 *
 *     KVR_TRY(kvr_baselines_make(&b, config));
 *     ... b.method[i] ...
 *
 * `baselines: auto` adds them to a sweep of three methods or more besides BF16: both 8-bit formats and one
 * window, or more windows while baselines are at most a quarter of the methods. Windows near the bytes of
 * most methods come first. `all` adds every one, `none` none. A window as long as the cell's own is never
 * added. */
#ifndef KVR_PLAN_BASELINES_H
#define KVR_PLAN_BASELINES_H

#include "harness/plan/config.h"

enum { KVR_MAX_BASELINES = 18 }; /* two of 8 bits, and windows of 1 to 15 bits an element */
extern const char *const kvr_baseline_words[]; /* "auto", "all", "none", NULL */

/* Warning of each of their cells. */
extern const char kvr_baseline_note[];

struct kvr_baselines {
    int n;
    struct kvr_config_method method[KVR_MAX_BASELINES]; /* of the config's document; */
    struct kvr_setting setting[KVR_MAX_BASELINES];      /* a window's is here ... */
    char value[KVR_MAX_BASELINES][24]; /* ... and its text, "fit 3": not to be moved */
};

/* Windows match the listed methods' bits per element at 128 channels, rounded up to whole bits; a sweep's own
 * budget (`fit 2.5`) is used unchanged. Baselines in the sweep's list are not added again. KVR_ENOMEM. */
enum kvr_status kvr_baselines_make(struct kvr_baselines *b, const struct kvr_config *c);

extern const char kvr_reference_plan[]; /* "BF16" */
/* BF16 without options: the baseline of every group. */
bool kvr_is_reference(const struct kvr_config_method *m);

#endif
