/* key_options.h - selects the method options that are part of a cell's key.
 *
 *     struct kvr_key_options g = { 0 };
 *     KVR_TRY(kvr_key_options_json(&g, cell, parts, &options, &all));
 *     kvr_key_options_free(&g);
 *
 * An option is part of the key if its value changes the method. For example, RTN_INT4 has 4 bits by
 * default, so the option `bits` with value 4 is not part of the key. A value that was found for a
 * memory budget (fit.h) is always part of the key. */
#ifndef KVR_PLAN_KEY_OPTIONS_H
#define KVR_PLAN_KEY_OPTIONS_H

#include <jansson.h>

#include "harness/core/status.h"

struct kvr_cell;
struct kvr_counts; /* defined in key_options.c */

/* A cache that records, for each method, which of its options are part of the keys of its cells. */
struct kvr_key_options {
    struct kvr_counts *counts; /* [n] */
    int n, at;                 /* number of entries of `counts`; index of the entry that the last
                                * lookup found */
};

/* Sets *out to a JSON object {name: value} of the options that are part of the key. Sets *all to a
 * JSON object of all options, or to NULL if *out already has all options. `parts` is the result of
 * kvr_parts_json for the method with all its options. If the method cannot be opened, `parts` is
 * JSON null, and all options are part of the key. The caller owns *out and *all. KVR_ENOMEM. */
enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all);
void kvr_key_options_free(struct kvr_key_options *g); /* accepts {0} */

#endif
