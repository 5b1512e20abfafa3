/* setting.h - reads, writes and compares settings of cells and sweeps, which settings.def lists.
 *
 *     struct kvr_settings s;
 *     KVR_TRY(kvr_settings_read_json(&s, spec, "worker's request"));    a cell's spec
 *     if (s.graphs) ...
 *
 *     char *sql = kvr_settings_sql("SELECT method, {group} FROM summary GROUP BY method, {group}");
 *
 * A new setting needs a row in settings.def and the code that uses the value. The row also
 * determines how the setting is parsed, filtered, stored and grouped in tables, and whether it is
 * part of the cell key. */
#ifndef KVR_STORE_SETTING_H
#define KVR_STORE_SETTING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

enum kvr_setting_type { KVR_SET_INT, KVR_SET_LONG, KVR_SET_FLAG, KVR_SET_WORD };

enum kvr_setting_when { KVR_KEY_ALWAYS, KVR_KEY_CHANGED, KVR_KEY_TOGETHER };

enum {
    KVR_SET_AXIS = 1 << 0,
    KVR_SET_GROUP = 1 << 1,
    KVR_SET_FILTER = 1 << 2,
    KVR_SET_MEASURE = 1 << 3,
    KVR_SET_BENCH = 1 << 4,
    KVR_SET_PROBE = 1 << 5,
    KVR_SET_DRAW = 1 << 6,
};

/* KVR_SET_frames, ... */
enum kvr_setting_id {
#define SETTING(name, ...) KVR_SET_##name,
#include "harness/store/settings.def"
#undef SETTING
    KVR_N_SETTINGS
};

/* The settings of one cell, or those common to all cells of a sweep. Strings are borrowed from
 * settings.def, from the sweep's YAML document, or from a spec's JSON. */
struct kvr_settings {
#define KVR_SET_C_INT int
#define KVR_SET_C_LONG int64_t
#define KVR_SET_C_FLAG bool
#define KVR_SET_C_WORD const char *
#define SETTING(name, type, ...) KVR_SET_C_##type name;
#include "harness/store/settings.def"
#undef SETTING
};

struct kvr_setting_row {
    const char *name;
    enum kvr_setting_type type;
    const char *def; /* default as text (NULL: the default depends on the model or on other
                      * settings) */
    long long lo, hi;
    const char *key; /* path of the setting in a cell's spec (JSON), such as "timing.alone" (NULL:
                      * the setting is not part of a spec) */
    enum kvr_setting_when when;
    const char *column;
    unsigned flags;
    const char *help;
    size_t offset; /* in struct kvr_settings */
};
extern const struct kvr_setting_row kvr_setting_rows[KVR_N_SETTINGS];

/* Returns the value of an INT, LONG or FLAG setting as a number, and 0 for a WORD setting. */
long long kvr_setting_number(const struct kvr_settings *s, enum kvr_setting_id id);
/* Returns whether a number is in the range of an INT or LONG setting. kvr_settings_read_json() does
 * not check ranges, so a database can contain any value. */
bool kvr_setting_in_range(enum kvr_setting_id id, long long number);
/* Sets a WORD setting to `word`, or any other setting to `number`. */
void kvr_setting_put(struct kvr_settings *s, enum kvr_setting_id id, long long number,
                     const char *word);
/* Returns a setting's value as it is written in a sweep, such as "21", "true" or "staged". A number
 * is written to `buf` [24], and the function returns `buf`. */
const char *kvr_setting_text(const struct kvr_settings *s, enum kvr_setting_id id, char *buf);

/* Sets every setting to its default. A number whose default depends on the model or on other
 * settings becomes 0, and a word without a default becomes NULL. */
void kvr_settings_defaults(struct kvr_settings *s);
/* Returns whether the setting applies to cells of this kind, which is "bench" (a timed rollout) or
 * "probe" (a rollout whose attention is compared with that of a BF16 cache). */
bool kvr_setting_counts(enum kvr_setting_id id, const char *kind);

/* Adds settings to a cell's spec, a JSON object. If `measure` is false, adds the settings that
 * affect the frames. If `measure` is true, adds the settings that affect only how the rollout is
 * measured. KVR_ENOMEM. */
enum kvr_status kvr_settings_write_json(const struct kvr_settings *s, bool measure, json_t *spec);
/* Reads all settings from a spec. Settings that the spec omits get their defaults. The strings of
 * the settings belong to the spec. KVR_EFORMAT: a setting has the wrong type, or a
 * required setting (KVR_KEY_ALWAYS) is missing. The message starts with `where`. */
enum kvr_status kvr_settings_read_json(struct kvr_settings *s, const json_t *spec,
                                       const char *where);

/* Returns whether `text` is the default of the setting stored in the database column `column`; a
 * spec omits a setting that has its default. The result is false for a setting that every spec has
 * (KVR_KEY_ALWAYS). */
bool kvr_setting_is_omitted(const char *column, const char *text);

/* Returns the name of the setting that the database column `column` stores, such as "device" for
 * the column `backend`. If the column stores no setting, the result is `column`. */
const char *kvr_setting_sweep_name(const char *column);

/* Returns a copy of the SQL statement `sql` with these placeholders replaced. Each may have a table
 * prefix such as `w.`:
 *     {group}    {w.group}     columns that means are grouped by: "model, frames, window, ..."
 *     {columns}  {w.columns}   columns of a cell's settings: "frames, seed, window, ..."
 *     {settings} {w.settings}  the group as one text: 'model nano, frames 6, ...'; CHANGED and
 *                              TOGETHER settings are included only if changed
 *     {w.score:psnr}           a metric of the run of `w`, a row of cells_wide; {w.extra:psnr}: its
 *                              second value; {w.series:psnr}: the cell whose series is used
 *     {root}  {root_settings}  like {group} and {settings}, but without those of reruns (flag DRAW)
 *     {declarations}           declarations of the columns that SQLite generates from the spec
 *     {run}                    text that is equal for cells that differ only in their metrics
 * The caller frees the copy. Returns NULL if out of memory. */
char *kvr_settings_sql(const char *sql);

#endif
