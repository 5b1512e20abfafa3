/* setting.h - the table of settings, and what every module makes of a row.
 *
 *     struct kvr_settings s;
 *     KVR_TRY(kvr_settings_read_json(&s, spec, "worker's request"));    a cell's spec
 *     if (s.graphs) ...
 *
 *     char *sql = kvr_settings_sql("SELECT method, {group} FROM summary GROUP BY method, {group}");
 *
 * Adding a setting is a row in settings.def and its use. Reading a sweep, --dump-config, the
 * product and its zips, filters, the cell's key, the worker's request, the database's columns and
 * what tables group by come from the row. */
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

/* The values of one cell, or of a sweep where it has one for all of its cells. Words are borrowed:
 * of a sweep from the rows' lists or its own text, of a spec from its JSON. */
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
    const char *def; /* NULL: hangs on something else */
    long long lo, hi;
    const char *key; /* "timing.alone"; NULL: no part of a cell */
    enum kvr_setting_when when;
    const char *column;
    unsigned flags;
    const char *help;
    size_t offset; /* in struct kvr_settings */
};
extern const struct kvr_setting_row kvr_setting_rows[KVR_N_SETTINGS];

/* INT, LONG and FLAG as a number; of a WORD 0. */
long long kvr_setting_number(const struct kvr_settings *s, enum kvr_setting_id id);
/* `word`: of a WORD; the others take `number`. */
void kvr_setting_put(struct kvr_settings *s, enum kvr_setting_id id, long long number,
                     const char *word);
/* As a sweep would say it: "21", "true", "staged". `buf` [24] is for numbers. */
const char *kvr_setting_text(const struct kvr_settings *s, enum kvr_setting_id id, char *buf);

/* All defaults; those that hang on something else are 0 or NULL. */
void kvr_settings_defaults(struct kvr_settings *s);
/* Whether the setting means something in a cell of this kind of run. */
bool kvr_setting_counts(enum kvr_setting_id id, const char *kind);

/* Adds to a spec: those of the rollout, or those of how it is measured. KVR_ENOMEM. */
enum kvr_status kvr_settings_write_json(const struct kvr_settings *s, bool measure, json_t *spec);
/* From a whole spec; `where` stands for it in messages. KVR_EFORMAT: one that is missing or of
 * another type. Words belong to the spec. */
enum kvr_status kvr_settings_read_json(struct kvr_settings *s, const json_t *spec,
                                       const char *where);

/* Whether `text`, a value of the setting with this column, goes without saying: the setting is
 * written into keys only when it is CHANGED, and is not. False for other columns. */
bool kvr_setting_unsaid(const char *column, const char *text);

/* The setting with this column as a sweep names it ("device" of "backend"); of others the column. */
const char *kvr_setting_said(const char *column);

/* Replaces in a statement, with or without a table's name before the dot:
 *     {group}    {w.group}     columns that no mean is taken over: "model, frames, window, ..."
 *     {columns}  {w.columns}   the settings of a cell: "frames, seed, window, ..."
 *     {settings} {w.settings}  the group as one text: 'model nano, frames 6, ...'; of settings that
 *                              are written into a key only when CHANGED, only those that are
 *     {w.score:psnr}           a metric of the run of `w`, a row of cells_wide; {w.extra:psnr}: its
 *                              second number; {w.series:psnr}: the cell whose series counts
 *     {root}  {root_settings}  both without which draw of a cell it is
 *     {declarations}           of the columns, each made of the cell's spec
 *     {run}                    text that is the same for cells which are the same measurement,
 *                              scored by other metrics
 * malloc'ed; NULL: no memory. */
char *kvr_settings_sql(const char *sql);

#endif
