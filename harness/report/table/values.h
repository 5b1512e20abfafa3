/* values.h - functions that make values of table cells.
 *
 *     const struct kvr_value row[] = { kvr_value_text(method), kvr_value_number(mean),
 *                                      kvr_value_count(n) };
 *     KVR_TRY(kvr_table_add(t, row));
 *
 * A text value points to the caller's string; kvr_table_add() copies the string. */
#ifndef KVR_TABLE_VALUES_H
#define KVR_TABLE_VALUES_H

#include <math.h>
#include <string.h>

#include "harness/store/store.h"

static inline struct kvr_value kvr_value_none(void)
{
    return (struct kvr_value){ .type = KVR_VALUE_NULL };
}

/* Makes a text value; the empty string is a text, not a missing value. */
static inline struct kvr_value kvr_value_text(const char *s)
{
    return (struct kvr_value){ .type = KVR_VALUE_TEXT, .text = s, .n_bytes = (int)strlen(s) };
}

/* Makes a text value; a NULL pointer and the empty string become the missing value. */
static inline struct kvr_value kvr_value_text_or_none(const char *s)
{
    return s && *s ? kvr_value_text(s) : kvr_value_none();
}

/* Makes a number; a value that is not finite becomes the missing value. */
static inline struct kvr_value kvr_value_number(double x)
{
    return isfinite(x) ? (struct kvr_value){ .type = KVR_VALUE_REAL, .r = x } : kvr_value_none();
}

static inline struct kvr_value kvr_value_count(int64_t n)
{
    return (struct kvr_value){ .type = KVR_VALUE_INT, .i = n, .r = (double)n };
}

#endif
