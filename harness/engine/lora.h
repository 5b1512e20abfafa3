/* lora.h - a low-rank adapter in PEFT's names, merged into the weights as they are read.
 *
 *     KVR_TRY(kvr_lora_open(&a, "lora.pt", 128, 128));      rank 0: whatever the file has
 *     KVR_TRY(kvr_lora_merge(a, "blocks.0.ffn.0.weight", 14336, 3072, w));
 *     KVR_TRY(kvr_lora_check_used(a));
 *     kvr_lora_close(&a);
 *
 * W <- W + (alpha / r) B A with lora_A [r, in] and lora_B [out, r]. The file may hold them under
 * "generator_lora" or bare; what stands before "base_model.model." and what training wrappers put
 * between is dropped. Tensors under "critic" are another network's. */
#ifndef KVR_ENGINE_LORA_H
#define KVR_ENGINE_LORA_H

#include <stdint.h>

#include "harness/core/status.h"

struct kvr_lora;

/* alpha 0: the rank. KVR_EFORMAT, with the name: a tensor that is no half of an adapter, a half
 * without the other, ranks that differ among the tensors or from `rank`. */
enum kvr_status kvr_lora_open(struct kvr_lora **out, const char *path, int rank, double alpha);
void kvr_lora_close(struct kvr_lora **a); /* copes with NULL */

/* The weight `name` [n, k] in place; as it was where the adapter has nothing for it. w NULL: sizes
 * alone are compared. KVR_EFORMAT: the adapter is of other sizes. KVR_ENAN. */
enum kvr_status kvr_lora_merge(struct kvr_lora *a, const char *name, int64_t n, int64_t k,
                               float *w);

/* KVR_EFORMAT, with the first name: an adapter's weight was never merged. */
enum kvr_status kvr_lora_check_used(const struct kvr_lora *a);

#endif
