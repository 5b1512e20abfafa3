/* probe.h - compares a method's attention with the attention over a BF16 KV cache of the same
 * tokens.
 *
 *     struct kvr_probe_opts opts = { .n_passes = 5, .every = 1 };
 *     KVR_TRY(kvr_probe_open(&p, &opts));
 *     kvr_cache_observe(cache, kvr_probe_observe, p);
 *     ... a rollout ...
 *     KVR_TRY(kvr_probe_rows(p, fn, ctx));
 *     kvr_probe_close(&p);
 *
 * At each attention call the probe reads the method's KV cache and a BF16 cache of the same keys
 * and values. The probe dequantizes the method's keys and values. It uses zero keys and values for
 * tokens that the method stores as zeros (zero-filled tokens), and repeats a pooled token for each
 * token it replaces. The probe applies the method's correction of attention scores, if there is
 * one, and computes attention over the two caches in double precision. Here p^ and p are the
 * attention weights over the past and current keys, with the method's and the BF16 cache
 * respectively. S is the set of past tokens visible in the BF16 cache, including tokens that the
 * method evicted. A is the sum of p over S, and A^ the sum of p^ over S. The metrics are:
 *
 *     delta_a           A^ - A: attention mass that the past gains from the current chunk
 *     jsd               1/2 KL(p || m) + 1/2 KL(p^ || m), m = (p + p^) / 2, natural logarithm
 *     attn_out_mse      mean over channels of (sum p^ v^ - sum p v)^2
 *     attn_out_rel      root of the summed squared difference over the summed square of sum p v
 *     attn_out_rel_k    as attn_out_rel, with the method's weights and BF16 values
 *     attn_out_rel_v    as attn_out_rel, with BF16 weights and the method's values (evicted: 0)
 *     top1_agreement    fraction of queries whose key with the largest p has the largest p^
 *     topk_recall       fraction of a query's 32 past keys with the largest p (by age: of the
 *                       keys of one age) among the 32 with the largest p^; ties count
 *     mass_bf16         A
 *     keys_bf16         1 / sum p^2: effective number of keys a query attends to
 *     mass_on_zero      p^ on zero-filled tokens
 *     mass_on_summary   p^ on tokens replaced by a mean token
 *     mass_lost         p on tokens evicted by the method
 *     k_mse, v_mse      over the elements of tokens that attention reads, zeros and means included
 *     k_rel_error, ...  root of the summed squared error over the summed square
 *     k_mse_channel_max k_mse of the worst channel
 *     recodes           mean number of times that a token's codes were rewritten
 *     value_changes     mean number of times that a token's decoded value changed
 *
 * The attention weight p^ is defined for every original token: the weight of a pooled token is
 * divided evenly among the tokens that it replaces, and an evicted token has weight 0. The probe
 * skips the first chunk, whose passes attend to no past tokens. The rollout continues with the
 * method's attention output. */
#ifndef KVR_WORKLOAD_PROBE_H
#define KVR_WORKLOAD_PROBE_H

#include "harness/cache/cache.h"

struct kvr_probe_opts {
    int n_passes;  /* number of forward passes per chunk, including the cache-update pass */
    int every;     /* the probe evaluates every `every`-th query of an attention call; 1: all
                    * queries */
    uint64_t seed; /* seed for the random choice of the first query to evaluate in each attention
                    * call */
};

struct kvr_probe;

/* Opens a probe. The method's KV cache must be in host memory; otherwise the first observed
 * attention call returns KVR_EUNSUPPORTED. */
enum kvr_status kvr_probe_open(struct kvr_probe **out, const struct kvr_probe_opts *opts);
void kvr_probe_close(struct kvr_probe **p);

/* Observer of attention calls (kvr_cache_observer_fn) that computes the metrics of an attention
 * call. `ctx` is a struct kvr_probe *. Open a new probe for each rollout. */
enum kvr_status kvr_probe_observe(void *ctx, const struct kvr_cache_view *view);

/* The value of one metric for a layer, head, pass, chunk and age. An index of -1 means the
 * aggregate over that dimension, for example over all heads. `age` is the distance between the
 * query's chunk and the key's chunk, in chunks. `n` is the number of samples that the value
 * aggregates: queries for metrics of attention, tokens for metrics of keys and values. `value` is
 * NaN if the metric is undefined. */
struct kvr_probe_row {
    const char *name;
    int layer, head, pass, chunk, age;
    double value;
    int64_t n;
};

/* Callback that receives one value of a metric; if it returns a status other than KVR_OK,
 * kvr_probe_rows ends and returns that status. */
typedef enum kvr_status kvr_probe_row_fn(void *ctx, const struct kvr_probe_row *row);

/* Calls `fn` with the values of all metrics: overall, per layer, and per layer and head. In
 * addition, calls `fn` with the values per pass, per chunk and per age of the keys, both over all
 * layers and for each layer. The metric delta_a is also reported for each combination of layer,
 * head, pass and chunk. */
enum kvr_status kvr_probe_rows(const struct kvr_probe *p, kvr_probe_row_fn *fn, void *ctx);

/* Checks the probe itself: for the method's KV cache and the same queries, compares the attention
 * outputs of the rollout with those of the probe. Returns the largest absolute difference, relative
 * to the root mean square of the output. A value larger than rounding errors means that the probe
 * has a bug. */
double kvr_probe_residual(const struct kvr_probe *p);

#endif
