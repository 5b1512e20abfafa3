/* setting_values.h - a sweep's values of settings (harness/store/settings.def).
 *
 *     struct kvr_setting_values v[KVR_N_SETTINGS] = { 0 };
 *     KVR_TRY(kvr_setting_values_read(v, root));
 *     KVR_TRY(kvr_zip_read(&zip, v, root));
 *     kvr_setting_values_free(v); */
#ifndef KVR_PLAN_SETTING_VALUES_H
#define KVR_PLAN_SETTING_VALUES_H

#include "harness/plan/yaml.h"
#include "harness/store/setting.h"

enum {
    KVR_WINDOW_OF_MODEL = -1,
    KVR_SINK_OF_MODEL = -1,
    KVR_OFFSET_OF_MODEL = -1,
    KVR_CONTROL_AUTO = -1,
    KVR_WORD_FREE_TEXT = -1
};

/* The values of one setting, in the sweep's order. The value of a WORD is an index into the row's
 * words, or KVR_WORD_FREE_TEXT for a free text, which is in `at`. */
struct kvr_setting_values {
    int n; /* number of values; 0: the setting is neither given nor has a default */
    long long *value;
    const struct kvr_yaml_node **at; /* node of each value; the document's root for a default */
    bool is_set;                     /* given by the sweep */
};

extern const char *const kvr_run_kinds[]; /* "bench", "probe", NULL */

/* The words that the setting's row allows; NULL: the setting is not a word. */
const char *const *kvr_setting_words(enum kvr_setting_id id);

/* KVR_EINVAL with file, line and column: out of bounds, unknown word, listed twice, or a list for a
 * setting that is not an axis. Call kvr_setting_values_free() after a failure, too. */
enum kvr_status kvr_setting_values_read(struct kvr_setting_values v[KVR_N_SETTINGS],
                                        const struct kvr_yaml_node *root);
void kvr_setting_values_free(struct kvr_setting_values v[KVR_N_SETTINGS]); /* accepts {0} */

/* Stores the i-th value in its field. */
void kvr_setting_choose(struct kvr_settings *s, enum kvr_setting_id id,
                        const struct kvr_setting_values *v, int i);

/* Parses `zip: [frames, window]`, axes that advance together. *set gets bit 1 << id for each.
 * KVR_EINVAL with file, line and column: a setting that is not an axis, or axes of different
 * lengths. */
enum kvr_status kvr_zip_read(uint64_t *set, const struct kvr_setting_values v[KVR_N_SETTINGS],
                             const struct kvr_yaml_node *root);

#endif
