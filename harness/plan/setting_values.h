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

/* The values of one setting, in the sweep's order. The value of a setting of type WORD is an index
 * into the setting's words (kvr_setting_words). Settings such as `schedule` also accept other text,
 * such as a list of steps. Such text has the value KVR_WORD_FREE_TEXT, and its YAML node is in
 * `at`. */
struct kvr_setting_values {
    int n; /* number of values (0: the sweep omits the setting, which has no default) */
    long long *value;
    const struct kvr_yaml_node **at; /* YAML node of each value, for error messages; for a default
                                      * value, the document's root */
    bool is_set;                     /* true if the sweep contains the setting; if false, `value` is
                                      * the default */
};

extern const char *const kvr_run_kinds[]; /* "bench", "probe", NULL */

/* Returns the words that a WORD setting allows, NULL-terminated, or NULL for other settings. */
const char *const *kvr_setting_words(enum kvr_setting_id id);

/* Reads the values of all settings from a sweep's root node. KVR_EINVAL: a value is out of bounds,
 * is an unknown word or is listed twice, or a setting that is not an axis has a list of values. The
 * message gives file, line and column. The caller must call kvr_setting_values_free() even after a
 * failure. */
enum kvr_status kvr_setting_values_read(struct kvr_setting_values v[KVR_N_SETTINGS],
                                        const struct kvr_yaml_node *root);
void kvr_setting_values_free(struct kvr_setting_values v[KVR_N_SETTINGS]); /* accepts {0} */

/* Sets the field of setting `id` in *s to the i-th value of v. */
void kvr_setting_choose(struct kvr_settings *s, enum kvr_setting_id id,
                        const struct kvr_setting_values *v, int i);

/* Parses `zip: [frames, window]`, a list of axes whose i-th values are combined. For each listed
 * setting `id` (enum kvr_setting_id), sets bit `id` of *set. KVR_EINVAL: a listed setting is not an
 * axis, or the axes have different numbers of values. The message gives file, line and column. */
enum kvr_status kvr_zip_read(uint64_t *set, const struct kvr_setting_values v[KVR_N_SETTINGS],
                             const struct kvr_yaml_node *root);

#endif
