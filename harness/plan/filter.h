/* filter.h - selects cells: "method~^RTN & prompt=3".
 *
 * Terms joined by '&': a field, an operator and a value, quoted if it contains '&'. Operators: = !=
 * ~ (regular expression, harness/core/regex.h) !~ < <= > >=. Fields: method (as displayed), name,
 * reading, family, model, suite, prompt (id, or number in the suite from 1), text, repeat, key, and
 * every setting with FILTER in its row (store/settings.def): frames, window, path, graphs, ... */
#ifndef KVR_PLAN_FILTER_H
#define KVR_PLAN_FILTER_H

#include "harness/plan/sweep.h"

struct kvr_filter;

/* KVR_EINVAL gives the invalid term and the reason. */
enum kvr_status kvr_filter_open(struct kvr_filter **out, const char *text);
bool kvr_filter_match(const struct kvr_filter *f, const struct kvr_cell *cell);
void kvr_filter_close(struct kvr_filter **f);

#endif
