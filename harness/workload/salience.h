/* salience.h - measures the attention that each token receives from the queries of the whole video,
 * including later chunks.
 *
 *     KVR_TRY(kvr_salience_measure(scheme, &shape, run_request, req, &table));
 *     kvr_cache_set_salience(cache, table);                        [L][capacity tokens]; free() it
 *
 * The measure is PaFu-KV's spatio-temporal salience (arXiv:2601.21896). Q and K are the queries and
 * keys of all chunks, recorded in the cache-update passes. P = softmax(Q K^T / sqrt(D)) is computed
 * over all tokens without a causal mask. The salience s_j of token j is defined by:
 *
 *     up_j, diag_j, low_j = max P_ij over queries i of earlier chunks, the same chunk, later chunks
 *     s_j = (diag + low) / 2 in the first chunk, (diag + up) / 2 in the last, (up + diag + low) / 3
 *           otherwise, diag for a single chunk; mean over query heads
 *
 * The PaFu-KV paper uses the queries and keys of a bidirectional teacher model; kvreel uses those
 * of the causal model itself. Of each chunk, only `queries` (argument of kvr_salience_open) evenly
 * spaced queries are used. */
#ifndef KVR_WORKLOAD_SALIENCE_H
#define KVR_WORKLOAD_SALIENCE_H

#include "harness/cache/cache.h"

struct kvr_salience;

/* Opens a measurement of all layers, or of the last layer only if `last_only` is true. The salience
 * in layers that are not measured is 0. `queries` is the number of queries per chunk to use, where
 * 0 means all. */
enum kvr_status kvr_salience_open(struct kvr_salience **out, const struct kvr_cache_shape *shape,
                                  bool last_only, int queries);
void kvr_salience_close(struct kvr_salience **s);

/* Observer of attention calls (kvr_cache_observer_fn) that records an attention call's queries and
 * keys. `ctx` is a struct kvr_salience *. */
enum kvr_status kvr_salience_observe(void *ctx, const struct kvr_cache_view *view);

/* Computes the salience of all observed tokens as a new table [L][capacity], where `capacity` is
 * the KV cache's capacity in tokens. Tokens that were not observed have salience 0. */
enum kvr_status kvr_salience_table(const struct kvr_salience *s, float **table);

/* Callback that runs a rollout or replay with the given observer. The rollout or replay must use
 * the method `bf16`, so that its queries and keys are unaffected by compression. */
typedef enum kvr_status kvr_salience_run_fn(void *ctx, const struct kvr_scheme *bf16,
                                            kvr_cache_observer_fn *observer, void *observer_ctx);

/* Measures the salience table for kvr_cache_set_salience(). The callback `run` is called once, and
 * must use a KV cache of the shape `shape`. If the eviction rule (retention) of `scheme` does not
 * use salience, *table is NULL and `run` is not called. */
enum kvr_status kvr_salience_measure(const struct kvr_scheme *scheme,
                                     const struct kvr_cache_shape *shape, kvr_salience_run_fn *run,
                                     void *ctx, float **table);

#endif
