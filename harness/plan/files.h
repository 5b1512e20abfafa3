/* files.h - lists the files that a sweep reads, including missing ones, with their sizes.
 *
 *     KVR_TRY(kvr_plan_files(&config, print, NULL));
 *
 * Model configs are not listed, because a missing one already makes the planning of the sweep
 * fail. */
#ifndef KVR_PLAN_FILES_H
#define KVR_PLAN_FILES_H

#include "harness/plan/config.h"

/* One file of a sweep; the strings are valid during the callback only. */
struct kvr_plan_file {
    const char *what, *path; /* kind of file, such as "text encoder"; path */
    int64_t bytes;           /* size of the file, estimated if it is missing (0: unknown) */
    bool there;
    const char *without; /* which cells can still run if the file is missing ("": no cell can
                          * run) */
};
typedef void kvr_plan_file_fn(void *ctx, const struct kvr_plan_file *file);

/* Returns whether at least one prompt of the sweep needs the text encoder of a model with this
 * config. */
bool kvr_plan_encodes(const struct kvr_config *c, const struct kvr_model_config *model);

/* Calls `fn` for each file that a rollout of the model in `dir` reads: weights and, for Wan, text
 * encoder and decoder. The function kvr_plan_model_files fails with the errors of
 * kvr_model_config_read. */
enum kvr_status kvr_plan_model_files(const char *dir, kvr_plan_file_fn *fn, void *ctx);

/* Calls `fn` for each file that the sweep reads. */
enum kvr_status kvr_plan_files(const struct kvr_config *c, kvr_plan_file_fn *fn, void *ctx);

#endif
