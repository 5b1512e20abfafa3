/* probe_impl.h - internal types of the probe: a decoded KV head, the results of a query, sums. */
#ifndef KVR_WORKLOAD_PROBE_IMPL_H
#define KVR_WORKLOAD_PROBE_IMPL_H

#include "harness/cache/layer.h"
#include "harness/workload/probe.h"

/* Indices of the two KV caches that the probe compares: the method's and the BF16 cache. */
enum { METHOD, BF16, N_SIDES };

/* Whether the method's cache evicted a past token (DROPPED), or how it stores the token: encoded
 * (CODED), replaced by a mean token (POOLED), or as zeros (ZERO). */
enum kvr_probe_fate { KVR_FATE_DROPPED, KVR_FATE_CODED, KVR_FATE_POOLED, KVR_FATE_ZERO };

/* Decoded keys and values of one KV head in one attention call: n_past visible past tokens, then
 * the current chunk; n in all. */
struct kvr_probe_head {
    const struct kvr_cache_view *view;
    const struct kvr_layer *layer[N_SIDES];
    int h, hq;                 /* index of the KV head, and of a query head that reads it */
    int kv_heads, d, wide;     /* number of KV heads Hkv; head dimension D; wide: D rounded up to a
                                * multiple of KVR_PROBE_PAD */
    int64_t n_past, n, stride; /* stride: n rounded up to a multiple of KVR_PROBE_PAD */
    double *kt[N_SIDES];       /* [D][stride]: keys, transposed */
    double *v[N_SIDES];        /* [stride][wide] */
    uint8_t *fate;             /* [n_past]: enum kvr_probe_fate */
    double *log_m; /* [n_past]: log of the number of tokens that a stored token represents */
    int *age;      /* [n_past]: age in chunks */
    int64_t *token, *serial; /* [n_past]: token index; serial number of the segment */
    float *row;              /* [D]: scratch */
};

enum { KVR_PROBE_PAD = 16 };

/* Allocates the arrays, and computes all members except keys and values. */
enum kvr_status kvr_probe_head_open(struct kvr_probe_head *x, const struct kvr_cache_view *view,
                                    const struct kvr_layer *bf16);
void kvr_probe_head_close(struct kvr_probe_head *x);
/* Decodes keys and values of KV head h, and sets hq to its first query head. */
void kvr_probe_head_read(struct kvr_probe_head *x, int h);

/* Returns the index of token `tok` among the visible tokens; -1: not visible. */
int64_t kvr_probe_index_of(const struct kvr_visible *seen, int64_t tok);

/* Differences between the attention over the method's cache and over the BF16 cache, for one query
 * (probe.h defines the metrics). */
struct kvr_probe_query {
    double mass[N_SIDES]; /* attention mass on past tokens, by cache (METHOD, BF16) */
    double jsd, out_se, k_se, v_se, out_energy, top1, keys, on_zero, on_summary, lost;
    /* `top`: number of past keys with the KVR_PROBE_TOP_KEYS largest BF16 attention weights.
     * `top_found`: number of these keys that are also among the method's largest weights. */
    double top_found, top;
    /* Maximum, over channels, of |a - b|, where a is the attention output of the method's KV cache
     * and b the output that the probe computes from the same cache. */
    double residual;
    double energy; /* mean square of b over channels */
};

/* Indices of a query's results that are restricted to keys of one age. Indices METHOD and BF16 are
 * the attention mass on these keys in each cache. Indices FOUND and TOP are the results top_found
 * and top of struct kvr_probe_query. */
enum { KVR_PROBE_FOUND = N_SIDES, KVR_PROBE_TOP, KVR_PROBE_BY_AGE };
/* Number of largest attention weights of a query that `top` and `top_found` compare. */
enum { KVR_PROBE_TOP_KEYS = 32 };

/* Computes the results of n queries of query head x->hq, where `list` has the indices of the
 * queries in the current chunk. out [n]: results over all keys. by_age [n][ages][KVR_PROBE_BY_AGE]:
 * results for keys of age 0 to ages - 1, in chunks. */
enum kvr_status kvr_probe_attention(const struct kvr_probe_head *x, const int64_t *list, int n,
                                    int ages, struct kvr_probe_query *out, double *by_age);

/* Sums over queries or tokens. Every metric of the probe is a quotient of two sums. */
struct kvr_probe_sums {
    double queries, delta, mass, jsd, top1, keys, on_zero, on_summary, lost;
    /* Squared error of the attention output, as a mean over channels. The output is computed with
     * the method's weights and values (out_se), the method's weights and BF16 values (out_k_se), or
     * BF16 weights and the method's values (out_v_se). out_energy: mean square of the BF16 output
     * over channels. */
    double out_se, out_k_se, out_v_se, out_energy;
    double top_found, top;
    /* Numbers of tokens and of their elements in one head. se: squared errors of the keys (se[0])
     * and values (se[1]), summed over these elements. energy: squares of the BF16 keys and values,
     * summed in the same way. */
    double tokens, elements, se[2], energy[2];
};

/* Last observation of a past token: `serial` is the serial number of its segment, and `hash` is the
 * hash of its decoded K and V over all heads. `recodes` counts the changes of `serial` between
 * observations, and `changes` those of `hash`. */
struct kvr_probe_token {
    int64_t serial;
    uint64_t hash;
    int32_t recodes, changes;
    bool seen;
};

struct kvr_probe_counts {
    double tokens, recodes, changes;
};

struct kvr_probe {
    struct kvr_probe_opts opts;
    struct kvr_cache_shape shape; /* n_layers is 0 before the first attention call */
    int n_chunks;
    int kv_heads, group;     /* number of KV heads Hkv; number of query heads per KV head */
    struct kvr_dev *dev;     /* CPU device of the BF16 copy; not included in memory statistics */
    struct kvr_scheme *bf16; /* method of the BF16 copy of the cache: BF16 */
    struct kvr_layer *shadow;
    struct kvr_layer_scratch scratch;
    struct kvr_probe_sums *call;     /* [L][H][passes][chunks] */
    struct kvr_probe_sums *by_age;   /* [L][H][ages in chunks] */
    double *channel;                 /* [L][2][Hkv][D]: squared errors of K and of V, summed
                                      * over tokens */
    double *channel_tokens;          /* [L]: number of tokens summed in `channel` */
    struct kvr_probe_token *token;   /* [L][capacity] */
    struct kvr_probe_counts *counts; /* [L][ages in chunks] */
    double residual;
};

static inline struct kvr_probe_sums *kvr_probe_call(const struct kvr_probe *p, int l, int h, int i,
                                                    int c)
{
    return &p->call[((l * p->shape.n_heads + h) * p->opts.n_passes + i) * p->n_chunks + c];
}

static inline struct kvr_probe_sums *kvr_probe_age(const struct kvr_probe *p, int l, int h, int age)
{
    return &p->by_age[(l * p->shape.n_heads + h) * p->n_chunks + age];
}

#endif
