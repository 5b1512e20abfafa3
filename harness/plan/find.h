/* find.h - finds models and suites by name.
 *
 * Search order:
 * 1. below the working directory;
 * 2. beside the config file and its parent folder;
 * 3. below $KVREEL_DATA;
 * 4. below PREFIX/share/kvreel of the program;
 * 5. in the folder above the program's own (a build tree);
 * 6. as a folder or file of that name in the working directory or beside the config file. */
#ifndef KVR_PLAN_FIND_H
#define KVR_PLAN_FIND_H

#include <stddef.h>

#include "harness/core/status.h"

struct kvr_find {
    const char *what;   /* for messages: "model", "suite" */
    const char *folder; /* "models", "configs/suites" */
    const char *suffix; /* "", ".yaml" */
    const char *inside; /* file that a matching folder must contain ("config.json"), or NULL */
};
extern const struct kvr_find kvr_find_model, kvr_find_suite, kvr_find_config, kvr_find_trace;

/* Writes the path of `name` to `out`. A name with a '/' or with the suffix is a path, relative to
 * the working directory or else to the config file. `config_path` may be NULL. KVR_ENOTFOUND
 * suggests the nearest name. */
enum kvr_status kvr_find_path(const struct kvr_find *f, const char *name, const char *config_path,
                              char *out, size_t n);

/* All names that kvr_find_path would find, sorted, without duplicates: a NULL-terminated array in
 * one allocation; free() it. */
enum kvr_status kvr_find_names(const struct kvr_find *f, const char *config_path, char ***out);

#endif
