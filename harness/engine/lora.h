/* lora.h - merges a low-rank adapter with PEFT's tensor names into weights while they are read.
 *
 *     KVR_TRY(kvr_lora_open(&a, "lora.pt", 128, 128));      rank 0: that of the file
 *     KVR_TRY(kvr_lora_merge(a, "blocks.0.ffn.0.weight", 14336, 3072, w));
 *     KVR_TRY(kvr_lora_check_used(a));
 *     kvr_lora_close(&a);
 *
 * Each weight W [out, in] becomes W + (alpha / r) B A, where A is lora_A [r, in], B is lora_B [out,
 * r] and r is the LoRA rank. The adapter's tensors are under the key "generator_lora" or at the top
 * level of the file. The part of a tensor's name up to and including "base_model.model." is
 * removed. Name parts that FSDP, activation checkpointing and torch.compile insert are also
 * removed, and then a leading "model.". Tensors under the key "critic" belong to another network
 * and are ignored. */
#ifndef KVR_ENGINE_LORA_H
#define KVR_ENGINE_LORA_H

#include <stdint.h>

#include "harness/core/status.h"

struct kvr_lora;

/* If rank is 0, the file's rank is used; if alpha is 0, alpha equals the rank. Returns KVR_EFORMAT,
 * with a message that names the tensor, if a tensor is neither lora_A nor lora_B, or if a weight
 * has only one of these two tensors. Also returns KVR_EFORMAT if the LoRA rank of a weight is not
 * `rank`. */
enum kvr_status kvr_lora_open(struct kvr_lora **out, const char *path, int rank, double alpha);
void kvr_lora_close(struct kvr_lora **a); /* accepts NULL */

/* Merges the adapter into weight `name`, w [n, k], in place; w is unchanged if the adapter has no
 * tensors for that weight. If w is NULL, only the sizes of the adapter's tensors are checked.
 * Returns KVR_EFORMAT if these sizes do not match n and k, and KVR_ENAN if an element of the
 * adapter's tensors is not finite. */
enum kvr_status kvr_lora_merge(struct kvr_lora *a, const char *name, int64_t n, int64_t k,
                               float *w);

/* If an adapter tensor was not merged into any weight, returns KVR_EFORMAT with a message that
 * names the first such tensor. */
enum kvr_status kvr_lora_check_used(const struct kvr_lora *a);

#endif
