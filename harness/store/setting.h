/* setting.h - the table of settings, and its uses in other modules.
 *
 *     struct kvr_settings s;
 *     KVR_TRY(kvr_settings_read_json(&s, spec, "worker's request"));    a cell's spec
 *     if (s.graphs) ...
 *
 *     char *sql = kvr_settings_sql("SELECT method, {group} FROM summary GROUP BY method, {group}");
 *
 * A new setting is a row in settings.def plus its use. Parsing of sweeps, --dump-config, product
 * and zips, filters, cell keys, worker requests, database columns and the grouping of tables are
 * generated from the row. */
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

/* Values of one cell, or of a sweep if common to all its cells. Words are borrowed: for a sweep
 * from the rows' lists or its text, for a spec from its JSON. */
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
    const char *def; /* default as text; NULL: the default depends on something else */
    long long lo, hi;
    const char *key; /* "timing.alone"; NULL: not part of a cell */
    enum kvr_setting_when when;
    const char *column;
    unsigned flags;
    const char *help;
    size_t offset; /* in struct kvr_settings */
};
extern const struct kvr_setting_row kvr_setting_rows[KVR_N_SETTINGS];

/* INT, LONG and FLAG as a number; 0 for a WORD. */
long long kvr_setting_number(const struct kvr_settings *s, enum kvr_setting_id id);
/* `word` is for WORD settings; others use `number`. */
void kvr_setting_put(struct kvr_settings *s, enum kvr_setting_id id, long long number,
                     const char *word);
/* The value as a sweep spells it: "21", "true", "staged". `buf` [24] is for numbers. */
const char *kvr_setting_text(const struct kvr_settings *s, enum kvr_setting_id id, char *buf);

/* All defaults; 0 or NULL for a setting whose default depends on something else. */
void kvr_settings_defaults(struct kvr_settings *s);
/* Whether the setting applies to cells of this kind of run. */
bool kvr_setting_counts(enum kvr_setting_id id, const char *kind);

/* Adds the rollout's settings, or those of the measurement, to a spec. KVR_ENOMEM. */
enum kvr_status kvr_settings_write_json(const struct kvr_settings *s, bool measure, json_t *spec);
/* Reads the settings of a complete spec, named `where` in messages. KVR_EFORMAT: missing or of
 * another type. Words belong to the spec. */
enum kvr_status kvr_settings_read_json(struct kvr_settings *s, const json_t *spec,
                                       const char *where);

/* Whether `text` is omitted from keys for the setting with this column: a CHANGED setting at its
 * default. False for other columns. */
bool kvr_setting_is_omitted(const char *column, const char *text);

/* The sweep's name of the setting with this column ("device" for "backend"); else the column. */
const char *kvr_setting_sweep_name(const char *column);

/* Replaces in a statement, with or without a table prefix:
 *     {group}    {w.group}     columns that means are grouped by: "model, frames, window, ..."
 *     {columns}  {w.columns}   the settings of a cell: "frames, seed, window, ..."
 *     {settings} {w.settings}  the group as one text: 'model nano, frames 6, ...'; CHANGED settings
 *                              are included only if changed
 *     {w.score:psnr}           a metric of the run of `w`, a row of cells_wide; {w.extra:psnr}: its
 *                              second number; {w.series:psnr}: the cell whose series is used
 *     {root}  {root_settings}  both without the draw of a cell
 *     {declarations}           of the columns generated from the cell's spec
 *     {run}                    text common to cells with the same measurement and other metrics
 * malloc'd; NULL: no memory. */
char *kvr_settings_sql(const char *sql);

#endif
