/* setting_values.h - the values that a sweep gives to settings (harness/store/settings.def).
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

/* The values of one setting, in the sweep's order. If the setting's type is WORD (settings.def),
 * each value is the index of a word in the list kvr_setting_words(). Some of these settings also
 * accept other text: `schedule` accepts a list of steps. For such text `value` has
 * KVR_WORD_FREE_TEXT, and the YAML node in `at` has the text. */
struct kvr_setting_values {
    int n; /* number of values; 0 if the sweep omits a setting that has no default */
    long long *value;
    const struct kvr_yaml_node **at; /* YAML node of each value, for error messages; for a default
                                      * value, the document's root */
    bool is_set;                     /* true if the sweep contains the setting; if false, `value` is
                                      * the default */
};

extern const char *const kvr_run_kinds[]; /* "bench", "probe", NULL */

/* Returns the NULL-terminated list of the words that setting `id` accepts, such as "model" for
 * `window`. Returns NULL if the setting accepts no words. */
const char *const *kvr_setting_words(enum kvr_setting_id id);

/* Reads the values of all settings from the root node of a sweep's YAML document. KVR_EINVAL: a
 * value is out of bounds, is an unknown word or is listed twice, or a setting without the flag AXIS
 * (settings.def) has a list of values. The message gives file, line and column. The caller must
 * call kvr_setting_values_free() even after a failure. */
enum kvr_status kvr_setting_values_read(struct kvr_setting_values v[KVR_N_SETTINGS],
                                        const struct kvr_yaml_node *root);
void kvr_setting_values_free(struct kvr_setting_values v[KVR_N_SETTINGS]); /* accepts {0} */

/* Sets the member of *s for setting `id` to value i of the list `v`, or to 0 if the list is
 * empty. */
void kvr_setting_choose(struct kvr_settings *s, enum kvr_setting_id id,
                        const struct kvr_setting_values *v, int i);

/* Parses `zip: [frames, window]`, a list of settings whose lists of values advance together: the
 * first values are combined, the second values are combined, and so on. For each setting `id` in
 * `zip` (enum kvr_setting_id), sets bit `id` of *set. KVR_EINVAL: a setting in `zip` lacks the flag
 * AXIS, or the lists of values differ in length. The message gives file, line and column. */
enum kvr_status kvr_zip_read(uint64_t *set, const struct kvr_setting_values v[KVR_N_SETTINGS],
                             const struct kvr_yaml_node *root);

#endif
