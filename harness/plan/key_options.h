/* key_options.h - selects the method options that are part of a cell's key.
 *
 *     struct kvr_key_options g = { 0 };
 *     KVR_TRY(kvr_key_options_json(&g, cell, parts, &options, &all));
 *     kvr_key_options_free(&g);
 *
 * An option counts if it changes the method. `bits: 4` for RTN_INT4, whose default is 4, does not count, so the
 * cell is the same as without it. A value solved for a budget always counts. */
#ifndef KVR_PLAN_KEY_OPTIONS_H
#define KVR_PLAN_KEY_OPTIONS_H

#include <jansson.h>

#include "harness/core/status.h"

struct kvr_cell;
struct kvr_counts; /* defined in given.c */

/* Cache: the options that count for each method, for all of its cells. */
struct kvr_key_options {
    struct kvr_counts *counts; /* [n] */
    int n, at;                 /* `at`: index of the last hit */
};

/* *options: {name: value} of the options that count; *all: of all options, or NULL if they are the
 * same. `parts`: the method with all options (kvr_parts_json), or JSON null for a method that
 * cannot be opened, whose options all count. The caller owns both. KVR_ENOMEM. */
enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all);
void kvr_key_options_free(struct kvr_key_options *g); /* accepts {0} */

#endif
