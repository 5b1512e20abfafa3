/* basis.h - principal components of every head's keys and values, from a model's own rollouts.
 *
 *     KVR_TRY(kvr_basis_open(&p, n_layers, n_heads, head_dim));
 *     ... rollouts with .observer = kvr_basis_observe, .observer_ctx = p ...
 *     KVR_TRY(kvr_basis_write(p, "basis.safetensors", metadata));
 *     kvr_basis_close(&p);
 *
 * Input: keys before RoPE, and values, of the clean passes. Mean and covariance are over all tokens
 * of all chunks. The components are the eigenvectors of the covariance by descending eigenvalue, as
 * the stage `principal` expects them (methods/codecs/lowrank). */
#ifndef KVR_WORKLOAD_BASIS_H
#define KVR_WORKLOAD_BASIS_H

#include "harness/cache/cache.h"

struct kvr_basis;

/* KVR_ENOMEM. */
enum kvr_status kvr_basis_open(struct kvr_basis **out, int n_layers, int n_heads, int head_dim);
void kvr_basis_close(struct kvr_basis **p);

/* A kvr_cache_observer_fn of a cache on the CPU; ctx is the struct kvr_basis. */
enum kvr_status kvr_basis_observe(void *ctx, const struct kvr_cache_view *view);

/* out [H][1 + D][D] for a layer's keys or values: the mean, then the components. share [H][D], or
 * NULL: each component's share of the variance. KVR_EINVAL: no data. KVR_ENOMEM. */
enum kvr_status kvr_basis_fit(const struct kvr_basis *p, int layer, enum kvr_side side, float *out,
                              double *share);

/* Writes tensors "k.0", "v.0", ... of all layers; metadata as for kvr_st_write(). */
enum kvr_status kvr_basis_write(const struct kvr_basis *p, const char *path,
                                const char *const *metadata);

#endif
