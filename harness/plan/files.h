/* files.h - every file that a sweep reads, there or not, with its size.
 *
 *     KVR_TRY(kvr_plan_files(&config, print, NULL));
 *
 * Configs of models are not among them: without one nothing can be planned. */
#ifndef KVR_PLAN_FILES_H
#define KVR_PLAN_FILES_H

#include "harness/plan/config.h"

/* Borrowed for the call. */
struct kvr_plan_file {
    const char *what, *path; /* "network", "text encoder" ... */
    int64_t bytes;           /* when it is not there by arithmetic, about; 0: not known */
    bool there;
    const char *without; /* what is then; "": nothing can be run */
};
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* Does a prompt of the sweep go through such a model's text encoder? */
bool kvr_plan_encodes(const struct kvr_config *c, const struct kvr_model_config *model);

/* The files that a rollout of the model in this folder reads: weights and, for Wan, those of the text encoder
 * and decoder. What kvr_model_config_read says of its config. */
enum kvr_status kvr_plan_model_files(const char *dir, kvr_plan_file_fn *fn, void *ctx);

enum kvr_status kvr_plan_files(const struct kvr_config *c, kvr_plan_file_fn *fn, void *ctx);

#endif
