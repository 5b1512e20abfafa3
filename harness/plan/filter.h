/* filter.h - which cells: "method~^RTN & prompt=3".
 *
 * Terms joined by '&': a field, an operator, a value (in quotes when it holds '&'). Operators:
 * = != ~ (regular expression, harness/core/regex.h) !~ < <= > >=. Fields: method (as shown), name,
 * reading, family, model, suite, prompt (its id, or its number in the suite from 1), text, repeat,
 * key, and every setting whose row says FILTER (store/settings.def): frames, window, path, graphs,
 * ... */
#ifndef KVR_PLAN_FILTER_H
#define KVR_PLAN_FILTER_H

#include "harness/plan/sweep.h"

struct kvr_filter;

/* KVR_EINVAL says which term is wrong and how. */
enum kvr_status kvr_filter_open(struct kvr_filter **out, const char *text);
bool kvr_filter_match(const struct kvr_filter *f, const struct kvr_cell *cell);
void kvr_filter_close(struct kvr_filter **f);

#endif
