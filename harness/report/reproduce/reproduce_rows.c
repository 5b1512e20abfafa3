/* reproduce_rows.c - defines the table's columns and writes a row's values. */
#include "harness/report/reproduce/reproduce_rows.h"

#include <math.h>
#include <string.h>

#include "harness/report/table/published.h"
#include "harness/report/table/values.h"

const char *const kvr_verdict_names[] = {
    "exact",
    "within tolerance",
    "data-dependent, within bounds",
    "OUT OF TOLERANCE",
    "not comparable",
    "not measured",
    "not published",
    "holds",
    "does not hold",
    "cannot be told here",
    NULL,
};

static const struct kvr_column columns[] = {
    { .name = "suite", .digits = -1 },     { .name = "method", .digits = -1 },
    { .name = "quantity", .digits = -1 },  { .name = "published", .digits = -1 },
    { .name = "measured", .digits = 4 },   { .name = "difference", .digits = -1 },
    { .name = "tolerance", .digits = -1 }, { .name = "verdict", .digits = -1 },
    { .name = "basis", .digits = -1 },     { .name = "reason", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

enum kvr_status kvr_repro_open(struct kvr_repro *r)
{
    return kvr_table_open(&r->out->table, N_COLUMNS, columns);
}

bool kvr_repro_wants(const struct kvr_repro *r, const char *quantity)
{
    return !r->quantity || strcmp(r->quantity, quantity) == 0;
}

enum kvr_status kvr_repro_add(struct kvr_repro *r, const struct kvr_repro_row *row)
{
    double published, rounding;
    bool number = kvr_published_number(row->published, &published, &rounding);
    struct kvr_value v[N_COLUMNS] = {
        kvr_value_text_or_none(row->suite),
        kvr_value_text_or_none(row->method),
        kvr_value_text_or_none(row->quantity),
        kvr_value_text_or_none(row->published),
        kvr_value_number(row->measured),
        kvr_value_number(number ? row->measured - published : NAN),
        kvr_value_number(row->tolerance),
        kvr_value_text_or_none(kvr_verdict_names[row->verdict]),
        kvr_value_text_or_none(row->basis),
        kvr_value_text_or_none(row->reason),
    };

    if (!kvr_repro_wants(r, row->quantity))
        return KVR_OK;
    r->out->n[row->verdict]++;
    return kvr_table_add(r->out->table, v);
}
