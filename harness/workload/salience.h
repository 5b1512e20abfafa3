/* salience.h - attention that each token receives in the whole video, including from later chunks.
 *
 *     KVR_TRY(kvr_salience_measure(scheme, &shape, run_request, req, &table));
 *     kvr_cache_set_salience(cache, table);                        [L][capacity tokens]; free() it
 *
 * PaFu-KV's spatio-temporal salience (arXiv:2601.21896): with queries and keys of all chunks' clean
 * passes and P = softmax(Q K^T / sqrt(D)) over all tokens, chunks not masked,
 *
 *     up_j, diag_j, low_j = max P_ij over queries i of earlier chunks, the same chunk, later chunks
 *     s_j = (diag + low) / 2 in the first chunk, (diag + up) / 2 in the last, (up + diag + low) / 3
 *           otherwise, diag for a single chunk; mean over query heads
 *
 * The paper uses a bidirectional teacher; here the queries and keys are the causal model's own.
 * Each chunk contributes `queries` evenly spaced queries. */
#ifndef KVR_WORKLOAD_SALIENCE_H
#define KVR_WORKLOAD_SALIENCE_H

#include "harness/cache/cache.h"

struct kvr_salience;

/* Collects salience of all layers, or of the last layer only (rows of the other layers are then 0).
 * queries: sampled per chunk; 0: all. KVR_ENOMEM. */
enum kvr_status kvr_salience_open(struct kvr_salience **out, const struct kvr_cache_shape *shape,
                                  bool last_only, int queries);
void kvr_salience_close(struct kvr_salience **s);

/* A kvr_cache_observer_fn; ctx is the struct kvr_salience. */
enum kvr_status kvr_salience_observe(void *ctx, const struct kvr_cache_view *view);

/* Makes the table of the salience of the tokens seen so far; 0 for all other tokens. KVR_ENOMEM. */
enum kvr_status kvr_salience_table(const struct kvr_salience *s, float **table);

/* Runs a request through a cache of scheme `bf16` with this observer. */
typedef enum kvr_status kvr_salience_run_fn(void *ctx, const struct kvr_scheme *bf16,
                                            kvr_cache_observer_fn *observer, void *observer_ctx);

/* The table for kvr_cache_set_salience(), measured by one call of `run`; *table is NULL, and nothing runs, if the
 * retention of `scheme` is causal. shape: dimensions of the cache of that run. */
enum kvr_status kvr_salience_measure(const struct kvr_scheme *scheme,
                                     const struct kvr_cache_shape *shape, kvr_salience_run_fn *run,
                                     void *ctx, float **table);

#endif
