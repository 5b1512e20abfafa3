/* salience_head.h - a small network that says how much attention a token will get.
 *
 *     struct kvr_salience_head *head;
 *     KVR_TRY(kvr_salience_head_open(&head, "auto", 3, 3, 64, 0));
 *     kvr_salience_head_ask(head, q, k, v, n, score);           score [n]
 *     kvr_salience_head_close(&head);
 *
 * PaFu-KV's Salience Estimation Head (arXiv:2601.21896): of a token's query, key and value in one
 * layer, all heads,
 *
 *     x     = [q | k | v]                  Hq D + 2 H D numbers, as attention reads them
 *     score = mean(W2 SiLU(W1 x + b1) + b2)
 *
 * A file of it is safetensors: fc1.weight [hidden, inputs], fc1.bias [hidden], fc2.weight
 * [outputs, hidden], fc2.bias [outputs], floats of any width. models/nano/salience.py trains one. */
#ifndef KVR_METHODS_KERNELS_SALIENCE_HEAD_H
#define KVR_METHODS_KERNELS_SALIENCE_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

/* What stands in the place of a file: the bundled model's where the shape is its own, else drawn
 * weights; drawn ones. */
#define KVR_SALIENCE_AUTO "auto"
#define KVR_SALIENCE_DRAWN "drawn"

struct kvr_salience_head;

/* Of Hq query heads and H heads of keys and values. KVR_ENOTFOUND, KVR_EFORMAT: no such file, or of
 * another shape; KVR_ENOMEM. `seed`: of drawn weights. */
enum kvr_status kvr_salience_head_open(struct kvr_salience_head **out, const char *which,
                                       int n_query_heads, int n_heads, int head_dim, int seed);
void kvr_salience_head_close(struct kvr_salience_head **head);

/* q [n,Hq,D], k, v [n,H,D] of the host -> score [n]. The same for any number of threads. */
void kvr_salience_head_ask(const struct kvr_salience_head *head, const float *q, const float *k,
                           const float *v, int64_t n, float *score);

/* Would `which` come to drawn weights on such a model? */
bool kvr_salience_head_drawn(const char *which, int n_query_heads, int n_heads, int head_dim);

#endif
