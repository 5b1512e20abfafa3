/* probe_impl.h - internal types of the attention probe (probe.h): the decoded keys and values of a
 * KV head, the metrics of one query, and sums of these metrics. */
#ifndef KVR_WORKLOAD_PROBE_IMPL_H
#define KVR_WORKLOAD_PROBE_IMPL_H

#include "harness/cache/layer.h"
#include "harness/workload/probe.h"

/* Indices of the two KV caches that the probe compares: the method's and the BF16 cache. */
enum { METHOD, BF16, N_SIDES };

/* How the method's cache stores a past token. DROPPED: the token was evicted. CODED: a codec
 * encoded the token. POOLED: the mean of several tokens replaces the token. ZERO: key and value
 * count as zero. */
enum kvr_probe_fate { KVR_FATE_DROPPED, KVR_FATE_CODED, KVR_FATE_POOLED, KVR_FATE_ZERO };

/* Decoded keys and values of one KV head in one attention call. The tokens are first the `n_past`
 * past tokens that the pass can see, then those of the current chunk; `n` is the number of all
 * these tokens. */
struct kvr_probe_head {
    const struct kvr_cache_view *view;
    const struct kvr_layer *layer[N_SIDES];
    int h, hq;                 /* h: index of the KV head; hq: index of a query head that attends to
                                * it */
    int kv_heads, d, wide;     /* kv_heads: number of KV heads Hkv; d: head dimension D; wide: D
                                * rounded up to a multiple of KVR_PROBE_PAD */
    int64_t n_past, n, stride; /* numbers of past tokens and of all tokens; stride: n rounded up to
                                * a multiple of KVR_PROBE_PAD */
    double *kt[N_SIDES];       /* [D][stride]: keys, transposed */
    double *v[N_SIDES];        /* [stride][wide]: values */
    uint8_t *fate;             /* [n_past]: enum kvr_probe_fate */
    double *log_m; /* [n_past]: log of the number of original tokens that the token replaces (its
                    * multiplicity) */
    int *age;      /* [n_past]: index of the current chunk minus index of the token's chunk */
    int64_t *token, *serial; /* [n_past]: token index in the rollout; serial number of the segment
                              * (struct kvr_segment) that contains the token */
    float *row;              /* [D]: scratch */
};

enum { KVR_PROBE_PAD = 16 };

/* Allocates the arrays and sets all members except the keys and values. */
enum kvr_status kvr_probe_head_open(struct kvr_probe_head *x, const struct kvr_cache_view *view,
                                    const struct kvr_layer *bf16);
void kvr_probe_head_close(struct kvr_probe_head *x);
/* Decodes the keys and values of KV head h, and sets x->hq to the first query head that attends to
 * it. */
void kvr_probe_head_read(struct kvr_probe_head *x, int h);

/* Returns the index of token `tok` among the past tokens that the pass can see, or -1 if the pass
 * cannot see it. */
int64_t kvr_probe_index_of(const struct kvr_visible *seen, int64_t tok);

/* Metrics of one query and query head, which compare attention over the method's cache with
 * attention over the BF16 cache. probe.h defines the metrics. */
struct kvr_probe_query {
    double mass[N_SIDES]; /* sum of the attention weights of past tokens, for each cache */
    double jsd, out_se, k_se, v_se, out_energy, top1, keys, on_zero, on_summary, lost;
    /* `top` is the number of past keys whose BF16 attention weight is among the KVR_PROBE_TOP_KEYS
     * largest, ties included. `top_found` is the number of these keys whose weight with the
     * method's cache is also among the KVR_PROBE_TOP_KEYS largest. */
    double top_found, top;
    /* Self-check of the probe: let a be the attention output that the rollout computed with the
     * method's cache, and b the output that the probe computes from the same cache. `residual` is
     * the maximum of |a - b| over channels, and `energy` is the mean of b^2 over channels. */
    double residual;
    double energy;
};

/* Indices into an array that has a query's metrics for the past keys of one age only. Elements
 * METHOD and BF16 are the attention mass on these keys with each cache. Elements FOUND and TOP are
 * the counts `top_found` and `top` of struct kvr_probe_query. */
enum { KVR_PROBE_FOUND = N_SIDES, KVR_PROBE_TOP, KVR_PROBE_BY_AGE };
/* Number of a query's largest attention weights that `top` and `top_found` compare. */
enum { KVR_PROBE_TOP_KEYS = 32 };

/* Computes the metrics of n queries of query head x->hq. list[i] is the index of query i in the
 * current chunk. out [n] receives the metrics over all keys. by_age [n][ages][KVR_PROBE_BY_AGE]
 * receives the metrics for the past keys of each age from 0 to ages - 1 chunks. */
enum kvr_status kvr_probe_attention(const struct kvr_probe_head *x, const int64_t *list, int n,
                                    int ages, struct kvr_probe_query *out, double *by_age);

/* Sums of per-query metrics over queries, and of squared errors over tokens. Every metric that the
 * probe reports is the quotient of two of these sums, or its square root. */
struct kvr_probe_sums {
    double queries, delta, mass, jsd, top1, keys, on_zero, on_summary, lost;
    /* Squared differences from the attention output of the BF16 cache, as means over channels. The
     * output that is compared has the method's attention weights and values (out_se), the method's
     * weights and BF16 values (out_k_se), or BF16 weights and the method's values (out_v_se).
     * `out_energy` sums the mean square of the BF16 output over channels. */
    double out_se, out_k_se, out_v_se, out_energy;
    double top_found, top;
    /* `tokens` counts past tokens that the method's cache still has, and `elements` the elements of
     * their keys in one head (D per token). `se` sums the squared errors of these tokens' keys
     * (se[0]) and values (se[1]), and `energy` the squares of their BF16 keys and values. */
    double tokens, elements, se[2], energy[2];
};

/* State of a past token in one layer at the last attention call that the probe observed, which
 * shows whether the method encoded the token again. `serial` is the serial number of the token's
 * segment, and `hash` is a hash of its decoded keys and values in all heads. `recodes` is the
 * number of times that `serial` has changed from one observed call to the next, and `changes` the
 * number of times that `hash` has. */
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
    struct kvr_cache_shape shape; /* shape of the observed KV cache; n_layers is 0 before the first
                                   * attention call */
    int n_chunks;
    int kv_heads, group;     /* kv_heads: number of KV heads Hkv; group: number of query heads per
                              * KV head */
    struct kvr_dev *dev;     /* CPU device of the BF16 cache, separate so that memory statistics
                              * exclude this cache */
    struct kvr_scheme *bf16; /* method of the BF16 cache: BF16, or F32 if the observed cache keeps
                              * uncompressed tokens in F32 */
    struct kvr_layer *shadow;
    struct kvr_layer_scratch scratch;
    struct kvr_probe_sums *call;     /* [L][H][passes][chunks] */
    struct kvr_probe_sums *by_age;   /* [L][H][ages in chunks] */
    double *channel;                 /* [L][2][Hkv][D]: squared errors of keys and of values per
                                      * channel, summed over tokens */
    double *channel_tokens;          /* [L]: number of tokens over which `channel` sums */
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
