/* salience_head.h - a small network that predicts the attention that a token will receive.
 *
 *     struct kvr_salience_head *head;
 *     KVR_TRY(kvr_salience_head_open(&head, "auto", 3, 3, 64, 0));
 *     kvr_salience_head_score(head, q, k, v, n, score);           score [n]
 *     kvr_salience_head_close(&head);
 *
 * The network is PaFu-KV's Salience Estimation Head (arXiv:2601.21896). Its input is the
 * concatenation of one token's queries, keys and values of all heads in one layer:
 *
 *     x     = [q | k | v]                  Hq D + 2 H D numbers, as attention reads them
 *     score = mean(W2 SiLU(W1 x + b1) + b2)
 *
 * The network's file is a safetensors file with the tensors fc1.weight [hidden, inputs], fc1.bias
 * [hidden], fc2.weight [outputs, hidden] and fc2.bias [outputs], in F32, F16 or BF16. The script
 * models/nano/salience.py trains such a network. */
#ifndef KVR_METHODS_KERNELS_SALIENCE_HEAD_H
#define KVR_METHODS_KERNELS_SALIENCE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

/* The argument `which` is the path of the network's file, "auto" or "drawn". "auto" selects the
 * network that is part of the program if it was trained for this shape, and random weights
 * otherwise. "drawn" selects random weights. */
#define KVR_SALIENCE_AUTO "auto"
#define KVR_SALIENCE_DRAWN "drawn"

struct kvr_salience_head;

/* Opens the network for a model with n_query_heads query heads (Hq) and n_heads KV heads (H).
 * Random weights, if `which` selects them, are drawn with `seed`. Fails with KVR_ENOTFOUND if the
 * file is missing, with KVR_EFORMAT if its tensors do not fit the model, with KVR_ENAN if a weight
 * is not finite, and with KVR_ENOMEM if memory is short. */
enum kvr_status kvr_salience_head_open(struct kvr_salience_head **out, const char *which,
                                       int n_query_heads, int n_heads, int head_dim, int seed);
void kvr_salience_head_close(struct kvr_salience_head **head);

/* Predicts score [n] from q [n,Hq,D] and k, v [n,H,D] in host memory. The scores do not depend on
 * the number of threads. */
void kvr_salience_head_score(const struct kvr_salience_head *head, const float *q, const float *k,
                             const float *v, int64_t n, float *score);

/* Returns whether kvr_salience_head_open would use random weights for the argument `which` and a
 * model of this shape. The scores are then arbitrary, and the retention policy `keep` returns a
 * warning. */
bool kvr_salience_head_drawn(const char *which, int n_query_heads, int n_heads, int head_dim);

#endif
