/* key_options.h - selects the method options that are part of a cell's key.
 *
 *     struct kvr_key_options g = { 0 };
 *     KVR_TRY(kvr_key_options_json(&g, cell, parts, &options, &all));
 *     kvr_key_options_free(&g);
 *
 * An option is part of the key if its value changes the method. For example, RTN_INT4 has 4 bits by
 * default, so the option `bits` with value 4 is not part of the key. A value solved for a budget is
 * always part of the key. */
#ifndef KVR_PLAN_KEY_OPTIONS_H
#define KVR_PLAN_KEY_OPTIONS_H

#include <jansson.h>

#include "harness/core/status.h"

struct kvr_cell;
struct kvr_counts; /* defined in key_options.c */

/* A cache of the options of each method that are part of its cells' keys. */
struct kvr_key_options {
    struct kvr_counts *counts; /* [n] */
    int n, at;                 /* number of entries; index of the entry found last */
};

/* Sets *out to a JSON object {name: value} of the options that are part of the key. Sets *all to
 * the object of all options, or to NULL if all options are part of the key. `parts` describes the
 * method with all options (kvr_parts_json). JSON null means that the method cannot be opened; then
 * all its options are part of the key. The caller owns *out and *all. KVR_ENOMEM. */
enum kvr_status kvr_key_options_json(struct kvr_key_options *g, const struct kvr_cell *cell,
                                     const json_t *parts, json_t **out, json_t **all);
void kvr_key_options_free(struct kvr_key_options *g); /* accepts {0} */

#endif
