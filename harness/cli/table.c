/* table.c - prints the JSON objects that --json would print as a text table. */
#include <math.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/report/table/table.h"

enum { MAX_COLUMNS = 16 };

static struct kvr_value value_of(const json_t *j)
{
    struct kvr_value v = { .type = KVR_VALUE_NULL };

    switch (json_typeof(j)) {
    case JSON_STRING:
        v.type = KVR_VALUE_TEXT;
        v.text = json_string_value(j);
        break;
    case JSON_INTEGER:
        v.type = KVR_VALUE_INT;
        v.i = json_integer_value(j);
        break;
    case JSON_REAL:
        v.type = KVR_VALUE_REAL;
        v.r = json_real_value(j);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v.type = KVR_VALUE_TEXT;
        v.text = json_is_true(j) ? "yes" : "no";
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
    case JSON_NULL:
        break;
    }
    if (v.text)
        v.n_bytes = (int)strlen(v.text);
    return v;
}

static enum kvr_status fill(struct kvr_table *t, const json_t *rows, const char *const *keys, int n)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        struct kvr_value row[MAX_COLUMNS] = { 0 };

        for (int c = 0; c < n; c++) {
            const json_t *j = json_object_get(json_array_get(rows, i), keys[c]);

            if (j)
                row[c] = value_of(j);
        }
        KVR_TRY(kvr_table_add(t, row));
    }
    return KVR_OK;
}

enum kvr_status kvr_cli_table(const json_t *rows, const char *const *keys)
{
    struct kvr_column column[MAX_COLUMNS] = { 0 };
    struct kvr_table *t;
    enum kvr_status st;
    int n = 0;

    for (; n < MAX_COLUMNS && keys[n]; n++)
        column[n] = (struct kvr_column){ .name = keys[n], .digits = -1 };
    KVR_TRY(kvr_table_open(&t, n, column));
    st = fill(t, rows, keys, n);
    if (st == KVR_OK)
        st = kvr_table_write(t, KVR_TABLE_TEXT, stdout);
    kvr_table_close(&t);
    return st;
}
