/* table_cell.c - see table_cell.h. */
#include "harness/report/table/table_cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *kvr_table_missing(enum kvr_table_format format)
{
    return format == KVR_TABLE_LATEX ? "--" : "-";
}

const char *kvr_table_shown(const struct kvr_table *t, int row, int c, enum kvr_table_format format,
                            char buf[KVR_SHOWN_MAX])
{
    const struct kvr_value *v = kvr_table_at(t, row, c);
    const struct kvr_column *col = &t->column[c];
    double scale = col->scale == 0.0 ? 1.0 : col->scale;
    double x = kvr_table_number(t, row, c) * scale;

    switch (v->type) {
    case KVR_VALUE_NULL:
        return kvr_table_missing(format);
    case KVR_VALUE_TEXT:
        return v->text;
    case KVR_VALUE_BLOB:
        snprintf(buf, KVR_SHOWN_MAX, "<%d bytes>", v->n_bytes);
        return buf;
    case KVR_VALUE_INT:
        if (scale == 1.0) {
            snprintf(buf, KVR_SHOWN_MAX, "%lld", (long long)v->i);
            return buf;
        }
        break;
    case KVR_VALUE_REAL:
        break;
    }
    return kvr_table_shown_number(col, x, format, buf);
}

const char *kvr_table_shown_number(const struct kvr_column *col, double x,
                                   enum kvr_table_format format, char buf[KVR_SHOWN_MAX])
{
    if (!isfinite(x))
        return kvr_table_missing(format);
    if (col->digits < 0)
        snprintf(buf, KVR_SHOWN_MAX, "%.6g", x);
    else
        snprintf(buf, KVR_SHOWN_MAX, "%.*f", col->digits, x);
    return buf;
}

bool kvr_table_is_of(const struct kvr_table *t, int base, int c, const char *ending)
{
    const char *a = t->column[base].name, *b = c < t->n_columns ? t->column[c].name : "";
    const size_t n = strlen(b), m = strlen(ending);

    return n > m && strcmp(b + n - m, ending) == 0 && strncmp(a, b, n - m) == 0 &&
           (a[n - m] == '\0' || a[n - m] == '_');
}

int kvr_table_span(const struct kvr_table *t, int c)
{
    return kvr_table_is_of(t, c, c + 1, "_lo") && kvr_table_is_of(t, c, c + 2, "_hi") ? 3 : 1;
}

bool kvr_table_ends(const struct kvr_table *t, int row, int c, double *lo, double *hi)
{
    const double scale = t->column[c].scale == 0.0 ? 1.0 : t->column[c].scale;

    if (kvr_table_span(t, c) != 3)
        return false;
    *lo = scale * kvr_table_number(t, row, c + 1);
    *hi = scale * kvr_table_number(t, row, c + 2);
    return isfinite(kvr_table_number(t, row, c)) && isfinite(*lo) && isfinite(*hi);
}
