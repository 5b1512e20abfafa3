/* record.c - converts records to and from JSON, by the table of their fields. */
#include "harness/store/record.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"

#define SIZE_TEXT sizeof(char *)
#define SIZE_WORDS sizeof(char *)
#define SIZE_ID 40
#define SIZE_INT sizeof(int)
#define SIZE_LONG sizeof(int64_t)
#define SIZE_FLAG sizeof(bool)
#define SIZE_PLACE sizeof(int)
#define SIZE_REAL sizeof(double)
#define SIZE_COUNTED sizeof(int64_t)
#define SIZE_SOME sizeof(int64_t)

#define RECORD(name, type) typedef type record_##name;
#define COUNTS(record, member)
#define FIELD(record, kind, member, column)                                                        \
    static_assert(sizeof(((record_##record *)0)->member) == SIZE_##kind,                           \
                  #record "." #member " is no " #kind);
#include "harness/store/records.def"
#undef RECORD
#undef COUNTS
#undef FIELD

const struct kvr_field kvr_fields[] = {
#define RECORD(name, type)
#define COUNTS(record, member)
#define FIELD(record, kind, member, column)                                                        \
    { KVR_RECORD_##record, KVR_FIELD_##kind, #column, offsetof(record_##record, member) },
#include "harness/store/records.def"
#undef FIELD
    { KVR_N_RECORDS, KVR_FIELD_TEXT, NULL, 0 },
};

static const size_t sizes[KVR_N_RECORDS] = {
#undef RECORD
#define RECORD(name, type) [KVR_RECORD_##name] = sizeof(type),
#define FIELD(record, kind, member, column)
#include "harness/store/records.def"
#undef RECORD
#undef COUNTS
#undef FIELD
};

/* For each record type: 1 + the offset of its COUNTS flag (records.def); 0 if it has no such
 * flag. */
static const size_t flags[KVR_N_RECORDS] = {
#define RECORD(name, type)
#define COUNTS(record, member) [KVR_RECORD_##record] = offsetof(record_##record, member) + 1,
#define FIELD(record, kind, member, column)
#include "harness/store/records.def"
#undef RECORD
#undef COUNTS
#undef FIELD
};

static bool *flag_of(enum kvr_record_id id, const void *item)
{
    return (bool *)((char *)(uintptr_t)item + flags[id] - 1);
}

static struct kvr_value text_value(const char *s)
{
    return s ? (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) }
             : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

static struct kvr_value int_value(int64_t i, bool there)
{
    return there ? (struct kvr_value){ .type = KVR_VALUE_INT, .i = i, .r = (double)i }
                 : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

struct kvr_value kvr_field_value(const struct kvr_field *f, const void *item)
{
    const void *at = (const char *)item + f->offset;

    switch (f->kind) {
    case KVR_FIELD_TEXT:
    case KVR_FIELD_WORDS:
        return text_value(*(const char *const *)at);
    case KVR_FIELD_ID:
        return text_value(at);
    case KVR_FIELD_INT:
        return int_value(*(const int *)at, true);
    case KVR_FIELD_LONG:
        return int_value(*(const int64_t *)at, true);
    case KVR_FIELD_FLAG:
        return int_value(*(const bool *)at, true);
    case KVR_FIELD_PLACE:
        return int_value(*(const int *)at, *(const int *)at >= 0);
    case KVR_FIELD_COUNTED:
        return int_value(*(const int64_t *)at, *flag_of(f->record, item));
    case KVR_FIELD_SOME:
        return int_value(*(const int64_t *)at, *flag_of(f->record, item) && *(const int64_t *)at);
    case KVR_FIELD_REAL:
        break;
    }
    return isfinite(*(const double *)at)
               ? (struct kvr_value){ .type = KVR_VALUE_REAL, .r = *(const double *)at }
               : (struct kvr_value){ .type = KVR_VALUE_NULL };
}

/* ------------------------------------------------------------- to JSON */

static json_t *to_json(const struct kvr_field *f, const void *item)
{
    const struct kvr_value v = kvr_field_value(f, item);

    switch (v.type) {
    case KVR_VALUE_TEXT:
        return kvr_json_words(v.text);
    case KVR_VALUE_INT:
        return f->kind == KVR_FIELD_FLAG ? json_boolean(v.i) : json_integer(v.i);
    case KVR_VALUE_REAL:
        return json_real(v.r);
    default:
        return json_null();
    }
}

static const struct kvr_field *first_of(enum kvr_record_id id)
{
    const struct kvr_field *f = kvr_fields;

    while (f->record != id)
        f++;
    return f;
}

static json_t *row_json(enum kvr_record_id id, const void *item)
{
    json_t *row = json_array();

    for (const struct kvr_field *f = first_of(id); row && f->record == id; f++)
        if (json_array_append_new(row, to_json(f, item))) {
            json_decref(row);
            return NULL;
        }
    return row;
}

json_t *kvr_records_json(enum kvr_record_id id, const void *items, int n)
{
    json_t *columns = json_array(), *rows = json_array(), *list = json_object();
    bool ok = columns && rows && list;

    for (const struct kvr_field *f = first_of(id); ok && f->record == id; f++)
        ok = json_array_append_new(columns, json_string(f->column)) == 0;
    for (int i = 0; ok && i < n; i++)
        ok = json_array_append_new(rows,
                                   row_json(id, (const char *)items + (size_t)i * sizes[id])) == 0;
    ok = ok && json_object_set(list, "columns", columns) == 0 &&
         json_object_set(list, "rows", rows) == 0;
    json_decref(columns);
    json_decref(rows);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

enum kvr_status kvr_record_write(enum kvr_record_id id, const void *item, json_t *object)
{
    for (const struct kvr_field *f = first_of(id); f->record == id; f++)
        if (json_object_set_new(object, f->column, to_json(f, item)))
            return kvr_fail(KVR_ENOMEM, "record: out of memory");
    return KVR_OK;
}

/* ------------------------------------------------------------- from JSON */

static enum kvr_status fail_type(const struct kvr_field *f, const char *where, const char *need)
{
    return kvr_fail(KVR_EFORMAT, "%s: value of '%s': need %s", where, f->column, need);
}

static enum kvr_status read_int(const struct kvr_field *f, const json_t *v, const char *where,
                                int *to)
{
    if (f->kind == KVR_FIELD_PLACE && json_is_null(v)) {
        *to = -1;
        return KVR_OK;
    }
    if (!json_is_integer(v) || json_integer_value(v) < (f->kind == KVR_FIELD_PLACE ? 0 : INT_MIN) ||
        json_integer_value(v) > INT_MAX)
        return fail_type(f, where,
                         f->kind == KVR_FIELD_PLACE ? "a whole number from 0 to 2^31-1, or null"
                                                    : "a whole number from -2^31 to 2^31-1");
    *to = (int)json_integer_value(v);
    return KVR_OK;
}

static enum kvr_status from_json(const struct kvr_field *f, const json_t *v, const char *where,
                                 void *item)
{
    void *to = (char *)item + f->offset;

    switch (f->kind) {
    case KVR_FIELD_WORDS:
    case KVR_FIELD_TEXT:
        if (!json_is_string(v) && !(f->kind == KVR_FIELD_WORDS && json_is_null(v)))
            return fail_type(f, where, "a string");
        *(const char **)to = json_string_value(v);
        return KVR_OK;
    case KVR_FIELD_INT:
    case KVR_FIELD_PLACE:
        return read_int(f, v, where, to);
    case KVR_FIELD_FLAG:
        if (!json_is_boolean(v))
            return fail_type(f, where, "true or false");
        *(bool *)to = json_is_true(v);
        return KVR_OK;
    case KVR_FIELD_REAL:
        if (!json_is_number(v) && !json_is_null(v))
            return fail_type(f, where, "a number");
        *(double *)to = json_is_number(v) ? json_number_value(v) : NAN;
        return KVR_OK;
    case KVR_FIELD_ID:
        return fail_type(f, where, "nothing");
    case KVR_FIELD_COUNTED:
    case KVR_FIELD_SOME:
    case KVR_FIELD_LONG:
        break;
    }
    if (!json_is_integer(v) && !(f->kind != KVR_FIELD_LONG && json_is_null(v)))
        return fail_type(f, where, "a whole number");
    *(int64_t *)to = json_integer_value(v);
    if (f->kind == KVR_FIELD_COUNTED && json_is_integer(v))
        *flag_of(f->record, item) = true;
    return KVR_OK;
}

enum kvr_status kvr_record_read(enum kvr_record_id id, const json_t *object, const char *where,
                                void *item)
{
    for (const struct kvr_field *f = first_of(id); f->record == id; f++)
        KVR_TRY(from_json(f, json_object_get(object, f->column), where, item));
    return KVR_OK;
}

/* Finds a field's column in a JSON list of rows; *at is its index in every row. */
static enum kvr_status find_column(const struct kvr_field *f, const json_t *columns,
                                   const char *where, size_t *at)
{
    for (*at = 0; *at < json_array_size(columns); ++*at) {
        const char *name = json_string_value(json_array_get(columns, *at));

        if (name && strcmp(name, f->column) == 0)
            return KVR_OK;
    }
    return kvr_fail(KVR_EFORMAT, "%s: the list 'columns' has no column '%s'", where, f->column);
}

enum kvr_status kvr_records_read(enum kvr_record_id id, const json_t *list, const char *where,
                                 void **items, int *n)
{
    const size_t size = sizes[id];
    json_t *columns, *rows;
    enum kvr_status st = KVR_OK;
    char *item;

    *items = NULL;
    *n = 0;
    KVR_TRY(kvr_json_array(list, where, "columns", &columns));
    KVR_TRY(kvr_json_array(list, where, "rows", &rows));
    item = calloc(json_array_size(rows) + 1, size);
    if (!item)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", where);
    for (const struct kvr_field *f = first_of(id); st == KVR_OK && f->record == id; f++) {
        size_t at, i;
        json_t *row;

        st = find_column(f, columns, where, &at);
        json_array_foreach(rows, i, row)
        {
            if (st != KVR_OK)
                break;
            st = from_json(f, json_array_get(row, at), where, item + i * size);
        }
    }
    if (st != KVR_OK) {
        free(item);
        return st;
    }
    *items = item;
    *n = (int)json_array_size(rows);
    return KVR_OK;
}

/* ------------------------------------------------------------- metrics */

static json_t *series_json(const struct kvr_row_metric *m)
{
    json_t *series = json_array();

    for (int i = 0; series && i < m->n_series; i++)
        if (json_array_append_new(series,
                                  isfinite(m->series[i]) ? json_real(m->series[i]) : json_null())) {
            json_decref(series);
            return NULL;
        }
    return series;
}

json_t *kvr_metric_json(const struct kvr_row_metric *m)
{
    json_t *o = json_object();

    if (o && kvr_record_write(KVR_RECORD_metric, m, o) == KVR_OK &&
        json_object_set_new(o, "series", series_json(m)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static enum kvr_status read_series(const json_t *list, const char *where, struct kvr_row_metric *m)
{
    const size_t n = json_array_size(list);
    double *values = calloc(n + 1, sizeof *values);

    m->series = values;
    if (!values)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", where);
    m->n_series = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);

        if (!json_is_number(v) && !json_is_null(v))
            return kvr_fail(KVR_EFORMAT,
                            "%s: series of metric %s, value %zu: need a number or null", where,
                            m->name, i);
        values[i] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    return KVR_OK;
}

static enum kvr_status read_metric(const json_t *o, const char *where, struct kvr_row_metric *all,
                                   int n)
{
    struct kvr_row_metric *m = &all[n];

    KVR_TRY(kvr_record_read(KVR_RECORD_metric, o, where, m));
    assert(m->name); /* records.def: not optional */
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, m->name) == 0)
            return kvr_fail(KVR_EFORMAT, "%s: two metrics have the name %s", where, m->name);
    if (!m->missing && !isfinite(m->value))
        m->missing = "not a finite number";
    return read_series(json_object_get(o, "series"), where, m);
}

enum kvr_status kvr_metrics_read(const json_t *list, const char *where,
                                 struct kvr_row_metric **metric, int *n)
{
    struct kvr_row_metric *all = calloc(json_array_size(list) + 1, sizeof *all);
    enum kvr_status st = all ? KVR_OK : kvr_fail(KVR_ENOMEM, "%s: out of memory", where);
    size_t i = 0;

    *metric = NULL;
    *n = 0;
    for (; st == KVR_OK && i < json_array_size(list); i++)
        st = read_metric(json_array_get(list, i), where, all, (int)i);
    if (st != KVR_OK) {
        kvr_metrics_free(all, (int)i);
        return st;
    }
    *metric = all;
    *n = (int)i;
    return KVR_OK;
}

void kvr_metrics_free(struct kvr_row_metric *metric, int n)
{
    for (int i = 0; metric && i < n; i++)
        free((void *)(uintptr_t)metric[i].series);
    free(metric);
}
