/* preferences.h - user settings that do not affect results, such as the database's path and the
 * number of concurrent cells.
 *
 *     KVR_TRY(kvr_preferences_read(&s));
 *     KVR_TRY(kvr_preferences_option(&s, KVR_PREF_DB, "out/a.db", "--db"));
 *     KVR_TRY(kvr_config_read_from(&c, &(struct kvr_config_source){ path, .preferences = &s }));
 *     jobs = kvr_preferences_number(&s, KVR_PREF_JOBS, 0);
 *     kvr_preferences_free(&s);
 *
 * Preferences are read from the following sources, where each source overrides the preceding ones:
 *     1. the defaults
 *     2. /etc/kvreel/config.yaml, or config.yaml in the folder $KVREEL_ETC
 *     3. $XDG_CONFIG_HOME/kvreel/config.yaml, by default ~/.config/kvreel/config.yaml
 *     4. ./kvreel.yaml
 *     5. the sweep
 *     6. environment variables: KVREEL_JOBS, ...
 *     7. the command-line option --set
 *     8. the command-line option of the preference, such as --db */
#ifndef KVR_PLAN_PREFERENCES_H
#define KVR_PLAN_PREFERENCES_H

#include <stdio.h>

#include "harness/plan/yaml.h"

enum kvr_preference_key {
    KVR_PREF_DB, /* the preferences DB, OUT, TIMEOUT_S and MEMORY_MIB are also keys of a sweep
                  * file */
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
        /* Value of the preference (`text`), and name of the file, variable or option that set it
         * (`from`). Both are owned. */
        char *text, *from;
        int line, column; /* position in the file `from`, from 1 (0: not from a file) */
        long long number;
    } v[KVR_N_PREFS];
};

/* Reads the preferences from files and environment variables; missing files are skipped.
 * KVR_EINVAL: a key is unknown or a value is out of bounds. The message gives file, line and
 * column, or the name of the environment variable. After a failure the struct is empty. */
enum kvr_status kvr_preferences_read(struct kvr_preferences *s);
void kvr_preferences_free(struct kvr_preferences *s); /* accepts {0} */

/* Sets a preference to the value `text` from the command line. `option` is the name of the
 * command-line option, such as "--db", which --dump-config prints as the source of the value. */
enum kvr_status kvr_preferences_option(struct kvr_preferences *s, enum kvr_preference_key key,
                                       const char *text, const char *option);

/* Returns the value of a numeric preference, or `def` if no source sets it. The value of
 * KVR_PREF_QUIET is 0 or 1. */
int kvr_preferences_number(const struct kvr_preferences *s, enum kvr_preference_key key, int def);

/* Copies the preferences DB, OUT, TIMEOUT_S and MEMORY_MIB into a sweep's YAML document. Copies a
 * preference only if a source of kind `rank` set it: a file, an environment variable or a
 * command-line option. Preferences from files do not override keys of the sweep. */
enum kvr_status kvr_preferences_apply(const struct kvr_preferences *s,
                                      enum kvr_preference_rank rank, struct kvr_yaml *sweep);

/* Writes YAML comments with the preferences that are not keys of a sweep file. Each comment has the
 * preference's value and the source of the value. */
enum kvr_status kvr_preferences_dump(const struct kvr_preferences *s, FILE *to);

#endif
