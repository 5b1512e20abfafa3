/* record.h - converts structs to JSON and to database rows; records.def lists the members of each
 * struct.
 *
 *     json_t *list = kvr_records_json(KVR_RECORD_pass, pass, n_passes);       in the worker
 *     ...
 *     struct kvr_row_pass *pass;
 *     KVR_TRY(kvr_records_read(KVR_RECORD_pass, list, "answer: passes", (void **)&pass, &n));
 *     free(pass);                                            texts in it belong to the list
 *
 * A list of structs is the JSON object {"columns": [name, ...], "rows": [[value, ...], ...]};
 * columns are matched by name. If a function returns KVR_EFORMAT, the message names the invalid
 * field, and the caller has nothing to free. */
#ifndef KVR_STORE_RECORD_H
#define KVR_STORE_RECORD_H

#include <jansson.h>
#include <stddef.h>

#include "harness/store/store.h"

/* Values of columns of the table `cell` that kvr_store_put() derives from an attempt. */
struct kvr_row_judged {
    const char *outcome;
    int64_t attempt;
    const char *verdict, *verdict_codes, *time_codes, *device_missing, *model_sha256, *input_sha256;
};

struct kvr_row_series {
    const char *name;
    int idx;
    double value;
};

struct kvr_row_attempt {
    const char *cell, *session;
    int64_t n;
    const char *outcome, *reason, *log_tail, *started, *finished;
    bool measured;
    int64_t wall_ns;
    const char *frames_sha256;
};

struct kvr_row_drift {
    const char *session;
    int idx;
    const char *cell, *started;
    int64_t ns;
};

struct kvr_row_of {
    const char *cell;
};

struct kvr_row_nth {
    int idx;
};

struct kvr_row_begun {
    const char *started;
};

/* KVR_RECORD_pass, ... */
enum kvr_record_id {
#define RECORD(name, type) KVR_RECORD_##name,
#define COUNTS(record, member)
#define FIELD(record, kind, member, column)
#include "harness/store/records.def"
#undef RECORD
#undef COUNTS
#undef FIELD
    KVR_N_RECORDS
};

enum kvr_field_kind {
    KVR_FIELD_TEXT,
    KVR_FIELD_WORDS,
    KVR_FIELD_ID,
    KVR_FIELD_INT,
    KVR_FIELD_LONG,
    KVR_FIELD_FLAG,
    KVR_FIELD_PLACE,
    KVR_FIELD_REAL,
    KVR_FIELD_COUNTED,
    KVR_FIELD_SOME
};

struct kvr_field {
    enum kvr_record_id record;
    enum kvr_field_kind kind;
    const char *column;
    size_t offset;
};
extern const struct kvr_field kvr_fields[]; /* one element per FIELD of records.def, in their order;
                                             * the last element has column NULL */

/* Returns the value of the field `f` of the struct `item`. The text of a string field is not copied
 * and belongs to the struct. */
struct kvr_value kvr_field_value(const struct kvr_field *f, const void *item);

json_t *kvr_records_json(enum kvr_record_id id, const void *items, int n); /* NULL: no memory */
/* Reads a list of structs from a JSON object with "columns" and "rows". The caller frees *items,
 * which is allocated even if *n is 0. Error messages start with the text `where`. */
enum kvr_status kvr_records_read(enum kvr_record_id id, const json_t *list, const char *where,
                                 void **items, int *n);

/* Adds the fields of one struct to a JSON object. */
enum kvr_status kvr_record_write(enum kvr_record_id id, const void *item, json_t *object);
/* Reads the fields of one struct from a JSON object. Members of `item` that are not in records.def
 * are unchanged. */
enum kvr_status kvr_record_read(enum kvr_record_id id, const json_t *object, const char *where,
                                void *item);

/* Returns a metric with its series as a JSON object. */
json_t *kvr_metric_json(const struct kvr_row_metric *m); /* NULL: no memory */
/* Reads a JSON array of metrics. KVR_EFORMAT: two metrics have the same name. If a value is null or
 * not finite and the JSON gives no reason, `missing` becomes "not a finite number". */
enum kvr_status kvr_metrics_read(const json_t *list, const char *where,
                                 struct kvr_row_metric **metric, int *n);
void kvr_metrics_free(struct kvr_row_metric *metric, int n); /* accepts NULL */

#endif
