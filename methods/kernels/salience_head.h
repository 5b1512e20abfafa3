/* salience_head.h - a small network that predicts the attention a token will receive.
 *
 *     struct kvr_salience_head *head;
 *     KVR_TRY(kvr_salience_head_open(&head, "auto", 3, 3, 64, 0));
 *     kvr_salience_head_score(head, q, k, v, n, score);           score [n]
 *     kvr_salience_head_close(&head);
 *
 * PaFu-KV's Salience Estimation Head (arXiv:2601.21896), applied to a token's query, key and value
 * of one layer, all heads:
 *
 *     x     = [q | k | v]                  Hq D + 2 H D numbers, as attention reads them
 *     score = mean(W2 SiLU(W1 x + b1) + b2)
 *
 * Its file is safetensors: fc1.weight [hidden, inputs], fc1.bias [hidden], fc2.weight [outputs,
 * hidden], fc2.bias [outputs], floats of any width. models/nano/salience.py trains one. */
#ifndef KVR_METHODS_KERNELS_SALIENCE_HEAD_H
#define KVR_METHODS_KERNELS_SALIENCE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

/* Values of the argument `which` other than a file's path. "auto": the bundled head if the shape
 * matches, else random weights. "drawn": random weights. */
#define KVR_SALIENCE_AUTO "auto"
#define KVR_SALIENCE_DRAWN "drawn"

struct kvr_salience_head;

/* Opens a head for Hq query heads and H KV heads. KVR_ENOTFOUND: no such file; KVR_EFORMAT: another
 * shape; KVR_ENOMEM. `seed`: for random weights. */
enum kvr_status kvr_salience_head_open(struct kvr_salience_head **out, const char *which,
                                       int n_query_heads, int n_heads, int head_dim, int seed);
void kvr_salience_head_close(struct kvr_salience_head **head);

/* q [n,Hq,D], k, v [n,H,D] in host memory -> score [n]. Independent of the number of threads. */
void kvr_salience_head_score(const struct kvr_salience_head *head, const float *q, const float *k,
                             const float *v, int64_t n, float *score);

/* Whether `which` gives random weights for such a model. */
bool kvr_salience_head_drawn(const char *which, int n_query_heads, int n_heads, int head_dim);

#endif
