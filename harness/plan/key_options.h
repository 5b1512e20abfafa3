/* key_options.h - selects the method options that are part of a cell's key.
 *
 *     struct kvr_key_options g = { 0 };
 *     KVR_TRY(kvr_key_options_json(&g, cell, parts, &options, &all));
 *     kvr_key_options_free(&g);
 *
 * An option is part of the key if its value changes the method. `bits: 4` for RTN_INT4, whose
 * default is 4, is not, so the cell is the same as without it. A value solved for a budget always
 * is. */
#ifndef KVR_PLAN_KEY_OPTIONS_H
#define KVR_PLAN_KEY_OPTIONS_H

#include <jansson.h>

#include "harness/core/status.h"

struct kvr_cell;
struct kvr_counts; /* defined in given.c */

/* Keeps, for each method, the options that are part of its cells' keys, so that they are determined
 * only once. */
struct kvr_key_options {
    struct kvr_counts *counts; /* [n] */
    int n, at;                 /* `at`: index of the entry found last */
};

/* *out: {name: value} of the options that are part of the key; *all: {name: value} of all options,
 * or NULL if it would equal *out. `parts`: the method with all options (kvr_parts_json), or JSON
 * null for a method that cannot be opened; all options of such a method are part of the key. The
 * caller owns *out and *all. KVR_ENOMEM. */
enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all);
void kvr_key_options_free(struct kvr_key_options *g); /* accepts {0} */

#endif
