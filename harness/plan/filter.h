/* filter.h - selects cells by a filter, such as "method~^RTN & prompt=3".
 *
 * A filter is a list of terms joined by '&'. A cell matches if all terms match. A term is a field,
 * an operator and a value; a value that contains '&' is quoted. The operators are = != < <= > >=
 * and, for regular expressions (harness/core/regex.h), ~ !~. Four fields describe the method:
 * `method` (label in tables, such as "RTN_INT4@study bits=3"), `name` (such as "RTN_INT4"),
 * `reading` (version of the method, such as "study") and `family`. Other fields are `model`,
 * `suite`, `prompt`, `text` (of the prompt), `repeat` and `key`. `prompt=4` selects every prompt
 * whose id is "4" or whose number in the suite, counted from 1, is 4. Every setting with the flag
 * FILTER in store/settings.def is also a field, such as `frames`, `window`, `path` and `graphs`. */
#ifndef KVR_PLAN_FILTER_H
#define KVR_PLAN_FILTER_H

#include "harness/plan/sweep.h"

struct kvr_filter;

/* Parses a filter. The message of KVR_EINVAL gives the invalid term and the reason. One thread at a
 * time may use a filter (see core/regex.h). */
enum kvr_status kvr_filter_open(struct kvr_filter **out, const char *text);
bool kvr_filter_match(struct kvr_filter *f, const struct kvr_cell *cell);
void kvr_filter_close(struct kvr_filter **f);

#endif
