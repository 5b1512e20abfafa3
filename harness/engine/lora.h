/* lora.h - merges a low-rank adapter with PEFT's tensor names into weights while they are read.
 *
 *     KVR_TRY(kvr_lora_open(&a, "lora.pt", 128, 128));      rank 0: that of the file
 *     KVR_TRY(kvr_lora_merge(a, "blocks.0.ffn.0.weight", 14336, 3072, w));
 *     KVR_TRY(kvr_lora_check_used(a));
 *     kvr_lora_close(&a);
 *
 * W <- W + (alpha / r) B A with lora_A [r, in] and lora_B [out, r]. These tensors are below
 * "generator_lora" or at the top level of the file. The prefix before "base_model.model." and the
 * infixes of training wrappers are dropped. Tensors under "critic" belong to another network and
 * are ignored. */
#ifndef KVR_ENGINE_LORA_H
#define KVR_ENGINE_LORA_H

#include <stdint.h>

#include "harness/core/status.h"

struct kvr_lora;

/* alpha 0: the rank. KVR_EFORMAT, with the tensor's name: it is neither lora_A nor lora_B, lacks
 * its pair, or has another rank than other tensors or `rank`. */
enum kvr_status kvr_lora_open(struct kvr_lora **out, const char *path, int rank, double alpha);
void kvr_lora_close(struct kvr_lora **a); /* accepts NULL */

/* Merges into weight `name` [n, k] in place; unchanged if the adapter has no tensors for it. w NULL: compares
 * sizes only. KVR_EFORMAT: the sizes differ. KVR_ENAN. */
enum kvr_status kvr_lora_merge(struct kvr_lora *a, const char *name, int64_t n, int64_t k,
                               float *w);

/* KVR_EFORMAT, with the first name: an adapter tensor was never merged. */
enum kvr_status kvr_lora_check_used(const struct kvr_lora *a);

#endif
