/* key_options.h - which of the options that a sweep gives a method are part of a cell's key.
 *
 *     struct kvr_key_options g = { 0 };
 *     KVR_TRY(kvr_key_options_json(&g, cell, parts, &options, &all));
 *     kvr_key_options_free(&g);
 *
 * An option counts when without it the method would be another one: `bits: 4` of RTN_INT4, which
 * has four bits, does not, and the cell is that of RTN_INT4 without a word. What a budget was
 * solved to counts always. */
#ifndef KVR_PLAN_KEY_OPTIONS_H
#define KVR_PLAN_KEY_OPTIONS_H

#include <jansson.h>

#include "harness/core/status.h"

struct kvr_cell;
struct kvr_counts; /* of given.c */

/* What was found out for one method counts for all of its cells. */
struct kvr_key_options {
    struct kvr_counts *counts; /* [n] */
    int n, at;                 /* `at`: where the last answer stood */
};

/* {name: value} of the options that count, and of all of them, NULL when those are the same.
 * `parts`: the cell's method with all of them (kvr_parts_json); null for one that cannot be opened,
 * whose options all count. The caller owns both. KVR_ENOMEM. */
enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all);
void kvr_key_options_free(struct kvr_key_options *g); /* copes with {0} */

#endif
