/* encode.h - encodes all prompts of a sweep with the models' text encoders before the first cell
 * (run of one method on one prompt) starts.
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
 * hashes (core/result_cache.h) where possible. If `cheap` is true, no file is read, and sha256 is
 * "" if a file's hash is not cached. Sets *there to true if the encoder and the tokenizer exist. */
enum kvr_status kvr_encoder_identify(const char *dir, bool cheap, bool *there,
                                     char sha256[KVR_SHA256_HEX]);

/* Writes one pack (a file of text embeddings) per model of the config, for the prompts of the
 * model's cells that have not run yet. Packs are stored in out_dir/embeddings. A pack's name
 * contains a hash of the text encoder, the prompts and the device; an existing pack is reused.
 * *packs receives an array with the path of each model's pack, or NULL for a model that needs no
 * pack. Encoding runs on the device that the cells use. On a GPU, encoding runs in a separate
 * process, whose memory is released before the first cell. Progress messages are written to `say`,
 * which may be NULL. */
enum kvr_status kvr_encode_waiting(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                   struct kvr_gpus *gpus, const char *out_dir, FILE *say,
                                   char ***packs);
void kvr_encoded_free(char **packs, int n_models); /* accepts NULL */

#endif
