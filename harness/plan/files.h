/* files.h - lists every file that a sweep reads, present or missing, with its size.
 *
 *     KVR_TRY(kvr_plan_files(&config, print, NULL));
 *
 * Model configs are not listed, since a sweep cannot be planned without them. */
#ifndef KVR_PLAN_FILES_H
#define KVR_PLAN_FILES_H

#include "harness/plan/config.h"

/* Borrowed for the call. */
struct kvr_plan_file {
    const char *what, *path; /* "network", "text encoder" ... */
    int64_t bytes;           /* size; for a missing file an approximate prediction; 0: unknown */
    bool there;
    const char *without; /* consequence if the file is missing; "": nothing can run */
};
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* Whether a prompt of the sweep is encoded by the text encoder of such a model. */
bool kvr_plan_encodes(const struct kvr_config *c, const struct kvr_model_config *model);

/* Lists the files that a rollout of the model in this folder reads: weights and, for Wan, text
 * encoder and decoder. Errors of kvr_model_config_read. */
enum kvr_status kvr_plan_model_files(const char *dir, kvr_plan_file_fn *fn, void *ctx);

enum kvr_status kvr_plan_files(const struct kvr_config *c, kvr_plan_file_fn *fn, void *ctx);

#endif
