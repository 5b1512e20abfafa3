/* basis.h - computes the principal components of each head's keys and values from a model's own
 * rollouts.
 *
 *     KVR_TRY(kvr_basis_open(&p, n_layers, n_heads, head_dim));
 *     ... rollouts with .observer = kvr_basis_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_basis_write(p, "basis.safetensors", metadata));
 *     kvr_basis_close(&p);
 *
 * The input is the keys before RoPE and the values of all chunks, taken from the cache-update
 * passes. Mean and covariance are computed over all tokens of all chunks. The principal components
 * are the eigenvectors of the covariance, sorted by descending eigenvalue, as the codec stage
 * `principal` (methods/codecs/lowrank) expects them. */
#ifndef KVR_WORKLOAD_BASIS_H
#define KVR_WORKLOAD_BASIS_H

#include "harness/cache/cache.h"

struct kvr_basis;

/* KVR_ENOMEM. */
enum kvr_status kvr_basis_open(struct kvr_basis **out, int n_layers, int n_heads, int head_dim);
void kvr_basis_close(struct kvr_basis **p);

/* Observer of attention calls (kvr_cache_observer_fn) that adds a chunk's keys and values to the
 * means and covariances. `ctx` is a struct kvr_basis *. The KV cache must be on the CPU. */
enum kvr_status kvr_basis_observe(void *ctx, const struct kvr_cache_view *view);

/* Computes out [H][1 + D][D] for a layer's keys or values: for each head the mean vector, then the
 * D principal components. If `share` [H][D] is not NULL, it receives the fraction of the variance
 * that each component explains. Returns KVR_EINVAL if no cache-update pass was observed. */
enum kvr_status kvr_basis_fit(const struct kvr_basis *p, int layer, enum kvr_side side, float *out,
                              double *share);

/* Writes the mean vectors and principal components of all layers to a safetensors file. Layer 0 has
 * the tensors "k.0" (keys) and "v.0" (values), each with the layout of `out` in kvr_basis_fit().
 * `metadata` is NULL or a NULL-terminated list of alternating keys and values. */
enum kvr_status kvr_basis_write(const struct kvr_basis *p, const char *path,
                                const char *const *metadata);

#endif
