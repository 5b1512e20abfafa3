/* encode.h - runs prompts through the models' text encoders, once, before the first cell.
 *
 *     KVR_TRY(kvr_encoder_identify(dir, false, &there, sha256)); for the plan's keys
 *     KVR_TRY(kvr_encode_waiting(&sweep, jobs, &gpus, out_dir, say, &packs));
 *     ... packs[cell->model - config->model], tensor kvr_cell_hash(prompt's text) ...
 *     kvr_encoded_free(packs, n); */
#ifndef KVR_RUN_ENCODE_H
#define KVR_RUN_ENCODE_H

#include <stdbool.h>
#include <stdio.h>

#include "harness/core/sha256.h"
#include "harness/run/choose.h"
#include "harness/run/gpus.h"

/* Hash of the encoder's and the tokenizer's files in a model's folder. Reads files whose hash is
 * not cached (core/remember.h). With `cheap` no file is read, and sha256 is "" if a hash is not
 * cached. *there: whether encoder and tokenizer exist. */
enum kvr_status kvr_encoder_identify(const char *dir, bool cheap, bool *there,
                                     char sha256[KVR_SHA256_HEX]);

/* Makes, for each model of the config, a pack with the embeddings of the prompts of its waiting
 * cells, computed on the cells' device. Packs are in out_dir/embeddings and named by content and
 * device; an existing pack is reused. The path is NULL if the model needs no pack. `say` may be
 * NULL. On a device, encoding runs in its own process on a free GPU, and its memory is released
 * before the first cell. */
enum kvr_status kvr_encode_waiting(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                   struct kvr_gpus *gpus, const char *out_dir, FILE *say,
                                   char ***packs);
void kvr_encoded_free(char **packs, int n_models); /* accepts NULL */

#endif
