/* find.h - finds models and suites by name.
 *
 * Models and suites are searched in this order; the first match is used:
 *     1. FOLDER/NAME in the working directory (FOLDER: models, configs/suites, ...)
 *     2. FOLDER/NAME in the config file's folder and in the parent of that folder
 *     3. FOLDER/NAME in $KVREEL_DATA
 *     4. FOLDER/NAME in PREFIX/share/kvreel, where PREFIX/bin contains the program
 *     5. FOLDER/NAME in the parent of the program's folder (a build tree)
 *     6. NAME in the working directory or in the config file's folder */
#ifndef KVR_PLAN_FIND_H
#define KVR_PLAN_FIND_H

#include <stddef.h>

#include "harness/core/status.h"

struct kvr_find {
    const char *what;   /* noun for error messages: "model", "suite" */
    const char *folder; /* "models", "configs/suites" */
    const char *suffix; /* "", ".yaml" */
    const char *inside; /* file that a matching folder must contain, such as "config.json" (NULL:
                         * matches are files) */
};
extern const struct kvr_find kvr_find_model, kvr_find_suite, kvr_find_config, kvr_find_trace;

/* Writes the path of the model or suite `name` to `out`. A name that contains '/' or ends with
 * f->suffix is a path. It is tried relative to the working directory first, then relative to the
 * folder of the config file `config_path` (NULL: no config file). KVR_ENOTFOUND: no such model or
 * suite (the message suggests the nearest name). */
enum kvr_status kvr_find_path(const struct kvr_find *f, const char *name, const char *config_path,
                              char *out, size_t n);

/* Sets *out to the sorted names of all models or suites in the folders 1 to 5 listed above, without
 * duplicates. The result is a NULL-terminated array in one allocation, which the caller frees. */
enum kvr_status kvr_find_names(const struct kvr_find *f, const char *config_path, char ***out);

#endif
