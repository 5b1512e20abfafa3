/* lora.h - a low-rank adapter in PEFT's names, merged into the weights as they are read.
 *
 *     KVR_TRY(kvr_lora_open(&a, "lora.pt", 128, 128));      rank 0: the file's
 *     KVR_TRY(kvr_lora_merge(a, "blocks.0.ffn.0.weight", 14336, 3072, w));
 *     KVR_TRY(kvr_lora_check_used(a));
 *     kvr_lora_close(&a);
 *
 * W <- W + (alpha / r) B A with lora_A [r, in] and lora_B [out, r]. The file may hold them under
 * "generator_lora" or at top level. The prefix before "base_model.model." and the infixes of training wrappers
 * are dropped. Tensors under "critic" belong to another network and are ignored. */
#ifndef KVR_ENGINE_LORA_H
#define KVR_ENGINE_LORA_H

#include <stdint.h>

#include "harness/core/status.h"

struct kvr_lora;

/* alpha 0: the rank. KVR_EFORMAT, with the name: a tensor that is neither lora_A nor lora_B, one without its
 * pair, or ranks that differ among tensors or from `rank`. */
enum kvr_status kvr_lora_open(struct kvr_lora **out, const char *path, int rank, double alpha);
void kvr_lora_close(struct kvr_lora **a); /* copes with NULL */

/* Merges into weight `name` [n, k] in place; unchanged if the adapter has no tensors for it. w NULL: compares
 * sizes only. KVR_EFORMAT: the sizes differ. KVR_ENAN. */
enum kvr_status kvr_lora_merge(struct kvr_lora *a, const char *name, int64_t n, int64_t k,
                               float *w);

/* KVR_EFORMAT, with the first name: an adapter's weight was never merged. */
enum kvr_status kvr_lora_check_used(const struct kvr_lora *a);

#endif
