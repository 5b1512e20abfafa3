/* encode.h - encodes all prompts with the models' text encoders before the first cell starts.
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

/* Computes the hash of the text encoder and the tokenizer in a model's folder, from cached file
 * hashes (core/remember.h) where possible. With `cheap`, no file is read, and sha256 is "" if a
 * file's hash is not cached. *there tells whether encoder and tokenizer exist. */
enum kvr_status kvr_encoder_identify(const char *dir, bool cheap, bool *there,
                                     char sha256[KVR_SHA256_HEX]);

/* Writes one pack of embeddings per model of the config, for the prompts of the model's waiting
 * cells. Packs are files of out_dir/embeddings, named by content and device; an existing pack is
 * reused. *packs has one path per model, or NULL if the model needs no pack. Encoding runs on the
 * device of the cells. On a GPU, encoding runs in a separate process, whose memory is released
 * before the first cell. `say` receives progress and may be NULL. */
enum kvr_status kvr_encode_waiting(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                   struct kvr_gpus *gpus, const char *out_dir, FILE *say,
                                   char ***packs);
void kvr_encoded_free(char **packs, int n_models); /* accepts NULL */

#endif
