/* salience.h - how much attention each token gets in the whole video, its future included.
 *
 *     KVR_TRY(kvr_salience_open(&s, &shape, true, 50));
 *     ... a rollout through a BF16 cache with .watch = kvr_salience_see, .watch_ctx = s ...
 *     KVR_TRY(kvr_salience_table(s, &table));                  [L][capacity tokens]; free() it
 *     kvr_salience_close(&s);
 *
 * PaFu-KV's spatio-temporal salience (arXiv:2601.21896): with queries and keys of all chunks' clean
 * passes and P = softmax(Q K^T / sqrt(D)) over all tokens, chunks not masked,
 *
 *     up_j, diag_j, low_j = the largest P_ij of queries i of earlier chunks, the same chunk, later ones
 *     s_j = (diag + low) / 2 in the first chunk, (diag + up) / 2 in the last, (up + diag + low) / 3
 *           between them, diag where there is one chunk; the mean over query heads
 *
 * The paper asks a bidirectional teacher; here the model's own queries and keys are multiplied as
 * one would. Each chunk contributes `queries` evenly spread queries. */
#ifndef KVR_WORKLOAD_SALIENCE_H
#define KVR_WORKLOAD_SALIENCE_H

#include "harness/workload/replay.h"

struct kvr_salience;

/* Collects salience of all layers, or of the last one only (rows of the others are then 0). queries: sampled per
 * chunk; 0: all. KVR_ENOMEM. */
enum kvr_status kvr_salience_open(struct kvr_salience **out, const struct kvr_cache_shape *shape,
                                  bool last_only, int queries);
void kvr_salience_close(struct kvr_salience **s);

/* A kvr_cache_watch_fn; ctx is the struct kvr_salience. */
enum kvr_status kvr_salience_see(void *ctx, const struct kvr_cache_view *view);

/* Of what was seen. Tokens not seen are 0. KVR_ENOMEM. */
enum kvr_status kvr_salience_table(const struct kvr_salience *s, float **table);

/* What kvr_cache_foretell() wants where the scheme's retention asks for it, of a BF16 run of the same
 * request, whose time and memory are in no result; *table is NULL where it does not. */
enum kvr_status kvr_salience_of_rollout(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                        const struct kvr_rollout_request *req, float **table);
enum kvr_status kvr_salience_of_replay(struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                       const struct kvr_replay_request *req, float **table);

#endif
