/* probe.h - compares a method's attention with that of a BF16 cache of the same tokens.
 *
 *     struct kvr_probe_opts opts = { .n_passes = 5, .every = 1 };
 *     KVR_TRY(kvr_probe_open(&p, &opts));
 *     kvr_cache_observe(cache, kvr_probe_observe, p);
 *     ... a rollout ...
 *     KVR_TRY(kvr_probe_rows(p, fn, ctx));
 *     kvr_probe_close(&p);
 *
 * At every attend the probe reads the method's cache (codes decoded, summaries and zeros expanded to their
 * tokens, corrections applied) and a BF16 cache of the same keys and values. It computes both attentions in
 * double. p^ and p are the weights of method and BF16 over all keys. S is the visible past of the BF16 cache,
 * including tokens that the method evicted, and A the sum of weights over S:
 *
 *     delta_a           A^ - A: attention mass that the past gains from the current chunk
 *     jsd               1/2 KL(p || m) + 1/2 KL(p^ || m), m = (p + p^) / 2, natural logarithm
 *     attn_out_mse      mean over channels of (sum p^ v^ - sum p v)^2
 *     attn_out_rel      root of the summed squared difference over the summed square of sum p v
 *     attn_out_rel_k as attn_out_rel, with the method's weights and BF16 values: the error of keys
 *     alone
 *     attn_out_rel_v    with BF16 weights and the method's values (dropped ones 0)
 *     top1_agreement    share of queries for which the key with the largest p has the largest p^
 *     topk_recall       share of a query's 32 past keys with the largest p (by age: of the
 *                       keys of one age) among the 32 with the largest p^; ties count
 *     mass_bf16         A
 *     keys_bf16         1 / sum p^2: effective number of keys a query attends to
 *     mass_on_zero      p^ on zero-filled tokens
 *     mass_on_summary   p^ on tokens replaced by a mean token
 *     mass_lost         p on tokens evicted by the method
 *     k_mse, v_mse      over the elements of tokens that attention reads, zeros and means included
 *     k_rel_error, ...  root of the summed squared error over the summed square
 *     k_mse_channel_max k_mse of the worst channel
 *     recodes           number of times a token's codes were rewritten
 *     value_changes     number of times that changed its decoded value
 *
 * p^ is per original token: a mean token's weight is divided evenly among the tokens it replaces; a dropped
 * token has 0. Passes without a past are skipped. The rollout continues with the method's output. */
#ifndef KVR_WORKLOAD_PROBE_H
#define KVR_WORKLOAD_PROBE_H

#include "harness/cache/cache.h"

struct kvr_probe_opts {
    int n_passes;  /* forwards of a chunk */
    int every;     /* every n-th query of a call is evaluated; 1: all */
    uint64_t seed; /* with layer, chunk and pass it selects the first query */
};

struct kvr_probe;

/* Both caches must be on the CPU; otherwise KVR_EUNSUPPORTED at the first attend. */
enum kvr_status kvr_probe_open(struct kvr_probe **out, const struct kvr_probe_opts *opts);
void kvr_probe_close(struct kvr_probe **p);

/* A kvr_cache_observer_fn; ctx is the probe. For one rollout. */
enum kvr_status kvr_probe_observe(void *ctx, const struct kvr_cache_view *view);

/* A metric of one layer, head, pass, chunk and age; -1: over all. `age`: distance of the token's chunk in
 * chunks, from 1. `n`: number of queries or tokens. NaN: undefined. */
struct kvr_probe_row {
    const char *name;
    int layer, head, pass, chunk, age;
    double value;
    int64_t n;
};

/* A status other than KVR_OK ends the walk and is returned. */
typedef enum kvr_status kvr_probe_row_fn(void *ctx, const struct kvr_probe_row *row);

/* Overall, by layer, by layer and head, by pass, by chunk and by age, the last three also by layer;
 * delta_a by all four. */
enum kvr_status kvr_probe_rows(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx);

/* Self-check: the largest difference between attention's output and the probe's own computation on the same
 * inputs, divided by the output's root mean square. More than rounding means that the probe is wrong. */
double kvr_probe_residual(const struct kvr_probe *p);

#endif
