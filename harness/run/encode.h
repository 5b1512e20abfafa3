/* encode.h - before the first cell: prompts through the text encoders of their models, once.
 *
 *     KVR_TRY(kvr_encoder_identify(dir, false, &there, sha256)); what the plan's keys say
 *     KVR_TRY(kvr_encode_waiting(&sweep, jobs, &gpus, out_dir, say, &packs));
 *     ... packs[cell->model - config->model], tensor kvr_cell_hash(prompt's text) ...
 *     kvr_encoded_free(packs, n);
 */
#ifndef KVR_RUN_ENCODE_H
#define KVR_RUN_ENCODE_H

#include <stdbool.h>
#include <stdio.h>

#include "harness/core/sha256.h"
#include "harness/run/choose.h"
#include "harness/run/gpus.h"

/* Of the encoder's and the tokenizer's files in a model's folder. Reads them whole where they are
 * not remembered (core/remember.h), or with `cheap` not at all: "" then. *there: both are. */
enum kvr_status kvr_encoder_identify(const char *dir, bool cheap, bool *there,
                                     char sha256[KVR_SHA256_HEX]);

/* For each model of the config a pack with the prompts of its waiting cells that go through an
 * encoder on the cells' device, below out_dir/embeddings, by what is in it and which device it is
 * of: one that is there is used again. NULL where there are none. `say` may be NULL. With a device,
 * in a process of its own on a GPU that nobody has: what it took there is free before the first
 * cell. */
enum kvr_status kvr_encode_waiting(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                   struct kvr_gpus *gpus, const char *out_dir, FILE *say,
                                   char ***packs);
void kvr_encoded_free(char **packs, int n_models); /* copes with NULL */

#endif
