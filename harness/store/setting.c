/* setting.c - reads and writes the values of a sweep's settings as JSON and SQL. */
#include "harness/store/setting.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/core/json.h"

#define AXIS KVR_SET_AXIS
#define GROUP KVR_SET_GROUP
#define FILTER KVR_SET_FILTER
#define MEASURE KVR_SET_MEASURE
#define BENCH KVR_SET_BENCH
#define PROBE KVR_SET_PROBE
#define DRAW KVR_SET_DRAW

const struct kvr_setting_row kvr_setting_rows[KVR_N_SETTINGS] = {
#define SETTING(name, type, def, lo, hi, words, key, when, column, flags, help)                    \
    { #name,                                                                                       \
      KVR_SET_##type,                                                                              \
      def,                                                                                         \
      lo,                                                                                          \
      hi,                                                                                          \
      key,                                                                                         \
      KVR_KEY_##when,                                                                              \
      column,                                                                                      \
      flags,                                                                                       \
      help,                                                                                        \
      offsetof(struct kvr_settings, name) },
#include "harness/store/settings.def"
#undef SETTING
};

/* --- values ----------------------------------------------------------------------------- */

static const void *field_of(const struct kvr_settings *s, enum kvr_setting_id id)
{
    return (const char *)s + kvr_setting_rows[id].offset;
}

static const char *word_of(const struct kvr_settings *s, enum kvr_setting_id id)
{
    return *(const char *const *)field_of(s, id);
}

long long kvr_setting_number(const struct kvr_settings *s, enum kvr_setting_id id)
{
    switch (kvr_setting_rows[id].type) {
    case KVR_SET_INT:
        return *(const int *)field_of(s, id);
    case KVR_SET_LONG:
        return *(const int64_t *)field_of(s, id);
    case KVR_SET_FLAG:
        return *(const bool *)field_of(s, id);
    case KVR_SET_WORD:
        break;
    }
    return 0;
}

bool kvr_setting_in_range(enum kvr_setting_id id, long long number)
{
    return number >= kvr_setting_rows[id].lo && number <= kvr_setting_rows[id].hi;
}

void kvr_setting_put(struct kvr_settings *s, enum kvr_setting_id id, long long number,
                     const char *word)
{
    void *to = (char *)s + kvr_setting_rows[id].offset;

    switch (kvr_setting_rows[id].type) {
    case KVR_SET_INT:
        *(int *)to = (int)number;
        break;
    case KVR_SET_LONG:
        *(int64_t *)to = number;
        break;
    case KVR_SET_FLAG:
        *(bool *)to = number != 0;
        break;
    case KVR_SET_WORD:
        *(const char **)to = word;
        break;
    }
}

const char *kvr_setting_text(const struct kvr_settings *s, enum kvr_setting_id id, char *buf)
{
    if (kvr_setting_rows[id].type == KVR_SET_WORD)
        return word_of(s, id) ? word_of(s, id) : "";
    if (kvr_setting_rows[id].type == KVR_SET_FLAG)
        return kvr_setting_number(s, id) ? "true" : "false";
    snprintf(buf, 24, "%lld", kvr_setting_number(s, id));
    return buf;
}

/* Returns the default of a numeric setting; 0 if it has none, or if its default is a word such as
 * "model". */
static long long default_number(enum kvr_setting_id id)
{
    const char *def = kvr_setting_rows[id].def;

    return !def ? 0 : strcmp(def, "true") == 0 ? 1 : strtoll(def, NULL, 10);
}

void kvr_settings_defaults(struct kvr_settings *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        kvr_setting_put(s, (enum kvr_setting_id)i, default_number((enum kvr_setting_id)i),
                        kvr_setting_rows[i].def);
}

bool kvr_setting_counts(enum kvr_setting_id id, const char *kind)
{
    const unsigned of = kvr_setting_rows[id].flags & (KVR_SET_BENCH | KVR_SET_PROBE);

    return !of || (of == KVR_SET_PROBE) == (strcmp(kind, "probe") == 0);
}

static bool is_default(const struct kvr_settings *s, enum kvr_setting_id id)
{
    if (kvr_setting_rows[id].type == KVR_SET_WORD)
        return strcmp(word_of(s, id), kvr_setting_rows[id].def) == 0;
    return kvr_setting_number(s, id) == default_number(id);
}

/* --- JSON ------------------------------------------------------------------------------- */

/* Length of the object name in a JSON key: "timing.alone" is member `alone` of object `timing`. 0:
 * the key is a direct member of the spec. */
static size_t object_length(const char *key)
{
    const char *dot = strchr(key, '.');

    return dot ? (size_t)(dot - key) : 0;
}

static bool same_object(const char *a, const char *b)
{
    const size_t n = object_length(a);

    return n > 0 && n == object_length(b) && strncmp(a, b, n) == 0;
}

static bool is_written(const struct kvr_settings *s, enum kvr_setting_id id)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[id];

    if (!kvr_setting_counts(id, s->kind))
        return false;
    if (r->when != KVR_KEY_TOGETHER)
        return r->when == KVR_KEY_ALWAYS || !is_default(s, id);
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        if (kvr_setting_rows[i].key && same_object(kvr_setting_rows[i].key, r->key) &&
            !is_default(s, (enum kvr_setting_id)i))
            return true;
    return false;
}

static json_t *value_json(const struct kvr_settings *s, enum kvr_setting_id id)
{
    switch (kvr_setting_rows[id].type) {
    case KVR_SET_WORD:
        return json_string(word_of(s, id));
    case KVR_SET_FLAG:
        return json_boolean(kvr_setting_number(s, id));
    default:
        return json_integer(kvr_setting_number(s, id));
    }
}

enum kvr_status kvr_settings_write_json(const struct kvr_settings *s, bool measure, json_t *spec)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const enum kvr_setting_id id = (enum kvr_setting_id)i;
        const struct kvr_setting_row *r = &kvr_setting_rows[i];
        const size_t n = r->key ? object_length(r->key) : 0;
        json_t *to = spec;
        char object[32];

        if (!r->key || ((r->flags & KVR_SET_MEASURE) != 0) != measure || !is_written(s, id))
            continue;
        if (n > 0) {
            snprintf(object, sizeof object, "%.*s", (int)n, r->key);
            to = json_object_get(spec, object);
            if (!to && json_object_set_new(spec, object, json_object()) == 0)
                to = json_object_get(spec, object);
        }
        if (json_object_set_new(to, r->key + (n ? n + 1 : 0), value_json(s, id)))
            return kvr_fail(KVR_ENOMEM, "setting %s: out of memory", r->name);
    }
    return KVR_OK;
}

static enum kvr_status read_value(struct kvr_settings *s, enum kvr_setting_id id, const json_t *o,
                                  const char *key, const char *where)
{
    const char *word = NULL;
    int64_t number = 0;
    bool flag = false;

    switch (kvr_setting_rows[id].type) {
    case KVR_SET_WORD:
        KVR_TRY(kvr_json_string(o, where, key, &word));
        break;
    case KVR_SET_FLAG:
        KVR_TRY(kvr_json_bool(o, where, key, &flag));
        number = flag;
        break;
    case KVR_SET_INT:
        KVR_TRY(kvr_json_int(o, where, key, &number));
        if (number < INT_MIN || number > INT_MAX)
            return kvr_fail(KVR_EFORMAT, "%s: %s: %lld is out of range, need -2^31..2^31-1", where,
                            key, (long long)number);
        break;
    case KVR_SET_LONG:
        KVR_TRY(kvr_json_int(o, where, key, &number));
        break;
    }
    kvr_setting_put(s, id, number, word);
    return KVR_OK;
}

enum kvr_status kvr_settings_read_json(struct kvr_settings *s, const json_t *spec,
                                       const char *where)
{
    kvr_settings_defaults(s);
    KVR_TRY(kvr_json_string(spec, where, "kind", &s->kind)); /* others depend on it */
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const enum kvr_setting_id id = (enum kvr_setting_id)i;
        const struct kvr_setting_row *r = &kvr_setting_rows[i];
        const size_t n = r->key ? object_length(r->key) : 0;
        const json_t *o = spec;
        char object[32];

        if (!r->key || !kvr_setting_counts(id, s->kind))
            continue;
        if (n > 0) {
            snprintf(object, sizeof object, "%.*s", (int)n, r->key);
            o = json_object_get(spec, object);
        }
        if (r->when != KVR_KEY_ALWAYS && !json_object_get(o, r->key + (n ? n + 1 : 0)))
            continue;
        KVR_TRY(read_value(s, id, o, r->key + (n ? n + 1 : 0), where));
    }
    return KVR_OK;
}

/* --- SQL -------------------------------------------------------------------------------- */

/* Writes a list of setting columns; settings with any flag in `without` are excluded. */
static void put_list(FILE *to, const char *table, bool group, unsigned without)
{
    const char *sep = group ? ", " : "";

    if (group)
        fprintf(to, "%smodel", table);
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const struct kvr_setting_row *r = &kvr_setting_rows[i];

        if (!r->column || (group && !(r->flags & KVR_SET_GROUP)) || (r->flags & without))
            continue;
        fprintf(to, "%s%s%s", sep, table, r->column);
        sep = ", ";
    }
}

/* SQL value of a setting's column if the spec does not contain the setting; true is 1. */
static const char *column_default(const struct kvr_setting_row *r)
{
    if (r->type != KVR_SET_FLAG)
        return r->def;
    return strcmp(r->def, "true") == 0 ? "1" : "0";
}

/* Writes an SQL expression for a text that describes the settings. Most settings appear in it only
 * if they differ from their default. */
static void put_text(FILE *to, const char *table, unsigned without)
{
    fprintf(to, "'model ' || %smodel", table);
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const struct kvr_setting_row *r = &kvr_setting_rows[i];
        const char *quote = r->type == KVR_SET_WORD ? "'" : "";

        if (!r->column || !(r->flags & KVR_SET_GROUP) || (r->flags & without))
            continue;
        if (r->when == KVR_KEY_ALWAYS)
            fprintf(to, " || ', %s ' || %s%s", r->name, table, r->column);
        else
            fprintf(to, " || iif(%s%s = %s%s%s, '', ', %s ' || %s%s)", table, r->column, quote,
                    column_default(r), quote, r->name, table, r->column);
    }
}

/* Declares one SQL column per setting, generated from the spec, so that column and spec cannot
 * differ. */
static void put_declarations(FILE *to)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const struct kvr_setting_row *r = &kvr_setting_rows[i];
        const bool word = r->type == KVR_SET_WORD, always = r->when == KVR_KEY_ALWAYS;
        const char *quote = word ? "'" : "";

        if (!r->column)
            continue;
        fprintf(to, "  %s %s%s GENERATED ALWAYS AS (", r->column, word ? "TEXT" : "INTEGER",
                r->flags & KVR_SET_PROBE ? "" : " NOT NULL");
        if (always)
            fprintf(to, "json_extract(spec, '$.%s')", r->key);
        else
            fprintf(to, "coalesce(json_extract(spec, '$.%s'), %s%s%s)", r->key, quote,
                    column_default(r), quote);
        fprintf(to, ") STORED,\n");
    }
}

/* Writes an SQL expression for the column `run`. Two cells have the same `run` if their rollout,
 * repeat and KVR_SET_MEASURE settings are equal; such cells differ only in their metrics. */
static void put_run(FILE *to)
{
    fprintf(to, "rollout || '/' || repeat");
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        if (kvr_setting_rows[i].column && (kvr_setting_rows[i].flags & KVR_SET_MEASURE))
            fprintf(to, " || '/' || coalesce(%s, '')", kvr_setting_rows[i].column);
}

bool kvr_setting_is_omitted(const char *column, const char *text)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const struct kvr_setting_row *r = &kvr_setting_rows[i];

        if (r->column && r->when != KVR_KEY_ALWAYS && strcmp(r->column, column) == 0)
            return strcmp(text, column_default(r)) == 0;
    }
    return false;
}

const char *kvr_setting_sweep_name(const char *column)
{
    for (int i = 0; i < KVR_N_SETTINGS; i++)
        if (kvr_setting_rows[i].column && strcmp(kvr_setting_rows[i].column, column) == 0)
            return kvr_setting_rows[i].name;
    return column;
}

/* Writes an SQL expression for a metric in view cells_wide: the cell's own value, or else the
 * latest value of another cell with the same `run`. `column`: value or extra. `table`: the table
 * alias before the cell's columns, such as "w.". */
static void put_score(FILE *to, const char *column, const char *table, const char *metric, int n)
{
    // cppcheck-suppress wrongPrintfScanfArgNum ; positional arguments (%1$s)
    fprintf(
        to,
        "coalesce((SELECT m.%1$s FROM metric m WHERE m.cell = %2$skey AND m.name = '%4$.*3$s'), "
        "(SELECT m.%1$s FROM cell t JOIN metric m ON m.cell = t.key WHERE t.run = %2$srun AND "
        "m.name = '%4$.*3$s' AND m.value IS NOT NULL ORDER BY t.finished DESC LIMIT 1))",
        column, table, n, metric);
}

/* Writes an SQL expression for the key of a cell that has a series (one value per frame or chunk)
 * of the metric: the cell itself, or else the latest other cell with the same `run`. */
static void put_series(FILE *to, const char *table, const char *metric, int n)
{
    // cppcheck-suppress wrongPrintfScanfArgNum ; positional arguments (%1$s)
    fprintf(to,
            "coalesce((SELECT x.cell FROM series x WHERE x.cell = %1$skey AND x.name = '%3$.*2$s' "
            "LIMIT 1), (SELECT t.key FROM cell t JOIN series x ON x.cell = t.key WHERE t.run = "
            "%1$srun AND x.name = '%3$.*2$s' ORDER BY t.finished DESC LIMIT 1))",
            table, n, metric);
}

static void put_named(FILE *to, const char *name, size_t n, const char *table)
{
    if (n > 6 && strncmp(name, "score:", 6) == 0)
        put_score(to, "value", table, name + 6, (int)n - 6);
    else if (n > 6 && strncmp(name, "extra:", 6) == 0)
        put_score(to, "extra", table, name + 6, (int)n - 6);
    else if (n > 7 && strncmp(name, "series:", 7) == 0)
        put_series(to, table, name + 7, (int)n - 7);
    else if (n == 5 && strncmp(name, "group", n) == 0)
        put_list(to, table, true, 0);
    else if (n == 4 && strncmp(name, "root", n) == 0)
        put_list(to, table, true, KVR_SET_DRAW);
    else if (n == 7 && strncmp(name, "columns", n) == 0)
        put_list(to, table, false, 0);
    else if (n == 8 && strncmp(name, "settings", n) == 0)
        put_text(to, table, 0);
    else if (n == 13 && strncmp(name, "root_settings", n) == 0)
        put_text(to, table, KVR_SET_DRAW);
    else if (n == 12 && strncmp(name, "declarations", n) == 0)
        put_declarations(to);
    else if (n == 3 && strncmp(name, "run", n) == 0)
        put_run(to);
    else
        fprintf(to, "{%s%.*s}", table, (int)n, name);
}

char *kvr_settings_sql(const char *sql)
{
    char *text = NULL, table[64];
    size_t size;
    FILE *to = kvr_text_open(&text, &size);

    while (to && *sql) {
        const char *open = strchr(sql, '{'), *end = open ? strchr(open, '}') : NULL;
        const char *name_end =
            end ? open + strcspn(open, ":}") : NULL; /* a metric's name may contain dots */
        const char *dot = end ? memchr(open, '.', (size_t)(name_end - open)) : NULL;

        if (!end || (dot && dot - open >= (ptrdiff_t)sizeof table - 1)) {
            fputs(sql, to);
            break;
        }
        fwrite(sql, 1, (size_t)(open - sql), to);
        snprintf(table, sizeof table, "%.*s", dot ? (int)(dot - open) : 0, open + 1);
        if (!dot)
            dot = open;
        put_named(to, dot + 1, (size_t)(end - dot - 1), table);
        sql = end + 1;
    }
    kvr_text_close(to, &text);
    return text;
}
