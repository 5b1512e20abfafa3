/* preferences.h - user settings that do not affect results: the database's path, the number of concurrent
 * cells.
 *
 *     KVR_TRY(kvr_preferences_read(&s));
 *     KVR_TRY(kvr_preferences_option(&s, KVR_PREF_DB, "out/a.db", "--db"));
 *     KVR_TRY(kvr_config_read_from(&c, &(struct kvr_config_source){ path, .preferences = &s }));
 *     jobs = kvr_preferences_number(&s, KVR_PREF_JOBS, 0);
 *     kvr_preferences_free(&s);
 *
 * Later sources override earlier ones: defaults, /etc/kvreel/config.yaml (folder: $KVREEL_ETC),
 * $XDG_CONFIG_HOME/kvreel/config.yaml (~/.config), ./kvreel.yaml, the sweep, environment variables
 * (KVREEL_JOBS, ...), --set, options. */
#ifndef KVR_PLAN_PREFERENCES_H
#define KVR_PLAN_PREFERENCES_H

#include <stdio.h>

#include "harness/plan/yaml.h"

enum kvr_preference_key {
    KVR_PREF_DB, /* a sweep may also set this and the next three preferences */
    KVR_PREF_OUT,
    KVR_PREF_TIMEOUT_S,
    KVR_PREF_MEMORY_MIB,
    KVR_PREF_JOBS,
    KVR_PREF_QUIET,
    KVR_N_PREFS
};

enum kvr_preference_rank { KVR_RANK_NONE, KVR_RANK_FILE, KVR_RANK_ENVIRONMENT, KVR_RANK_OPTION };

struct kvr_preferences {
    struct {
        enum kvr_preference_rank rank; /* NONE: the default */
        char *text, *from;             /* owned; from: a file, a variable, an option */
        int line, column;              /* position in the file `from`; 0 for other sources */
        long long number;
    } v[KVR_N_PREFS];
};

/* Missing files are skipped. KVR_EINVAL: an unknown key or a value out of bounds, with file, line and column or
 * the variable's name. On failure `s` is empty. */
enum kvr_status kvr_preferences_read(struct kvr_preferences *s);
void kvr_preferences_free(struct kvr_preferences *s); /* accepts {0} */

/* Sets a preference from the command line; `option` is the source that --dump-config prints. */
enum kvr_status kvr_preferences_option(struct kvr_preferences *s, enum kvr_preference_key key,
                                       const char *text, const char *option);

/* The value of a preference, or `def` if no source sets it; 0 or 1 for KVR_PREF_QUIET. */
int kvr_preferences_number(const struct kvr_preferences *s, enum kvr_preference_key key, int def);

/* Copies preferences of `rank` into a sweep's document. Those from files do not override the sweep's own keys. */
enum kvr_status kvr_preferences_apply(const struct kvr_preferences *s,
                                      enum kvr_preference_rank rank, struct kvr_yaml *sweep);

/* Writes the preferences that a sweep cannot set as comments, with their sources. */
enum kvr_status kvr_preferences_dump(const struct kvr_preferences *s, FILE *to);

#endif
