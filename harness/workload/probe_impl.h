/* probe_impl.h - parts of the probe: one head decoded to double, weights of its queries, sums. */
#ifndef KVR_WORKLOAD_PROBE_IMPL_H
#define KVR_WORKLOAD_PROBE_IMPL_H

#include "harness/cache/layer.h"
#include "harness/workload/probe.h"

/* The two caches compared. */
enum { METHOD, BF16, N_SIDES };

/* State of a token in the method's cache. */
enum kvr_probe_fate { KVR_FATE_DROPPED, KVR_FATE_CODED, KVR_FATE_POOLED, KVR_FATE_ZERO };

/* Visible past and current chunk of one layer, one head of keys at a time. n = n_past + current. */
struct kvr_probe_head {
    const struct kvr_cache_view *view;
    const struct kvr_layer *layer[N_SIDES];
    int h, hq;                 /* KV head; query head that reads it */
    int kv_heads, d, wide;     /* Hkv; D; D padded */
    int64_t n_past, n, stride; /* stride: n padded */
    double *kt[N_SIDES];       /* [D][stride]: keys, transposed */
    double *v[N_SIDES];        /* [stride][wide] */
    uint8_t *fate;             /* [n_past] */
    double *log_m;             /* [n_past] log of the multiplicity of what is stored */
    int *age;                  /* [n_past] chunks back */
    int64_t *token, *serial;   /* [n_past] token index; serial of its coding */
    float *row;                /* scratch */
};

enum { KVR_PROBE_PAD = 16 };

/* Fills all but keys and values: sizes, tokens, ages, fates. Owns its arrays. */
enum kvr_status kvr_probe_head_open(struct kvr_probe_head *x, const struct kvr_cache_view *view,
                                    const struct kvr_layer *bf16);
void kvr_probe_head_close(struct kvr_probe_head *x);
/* Reads keys and values of KV head h; hq becomes its first query head. */
void kvr_probe_head_read(struct kvr_probe_head *x, int h);

/* Index of token `tok` among the visible ones; -1: not visible. */
int64_t kvr_probe_index_of(const struct kvr_visible *seen, int64_t tok);

/* Results of one query. */
struct kvr_probe_query {
    double mass[N_SIDES]; /* A of method and BF16 */
    double jsd, out_se, k_se, v_se, out_energy, top1, keys, on_zero, on_summary, lost;
    double top_found, top; /* BF16's top past keys: also in the method's top; all */
    double residual;       /* largest |attention's output - own computation| */
    double energy;         /* mean square of the latter over channels */
};

/* Results of a query by age of the keys: weights of both sides, then as top_found and top. */
enum { KVR_PROBE_FOUND = N_SIDES, KVR_PROBE_TOP, KVR_PROBE_BY_AGE };
/* Number of keys in `top`. */
enum { KVR_PROBE_TOP_KEYS = 32 };

/* Evaluates queries list[0..n) of head x->hq: out [n], by_age [n][ages][KVR_PROBE_BY_AGE]. */
enum kvr_status kvr_probe_attention(const struct kvr_probe_head *x, const int64_t *list, int n,
                                    int ages, struct kvr_probe_query *out, double *by_age);

/* Sums from which all metrics are quotients. */
struct kvr_probe_sums {
    double queries, delta, mass, jsd, top1, keys, on_zero, on_summary, lost;
    double out_se, out_k_se, out_v_se, out_energy; /* output errors: both, K or V alone */
    double top_found, top;
    double tokens, elements, se[2], energy[2]; /* K, V */
};

/* The content last read for a token, and how often it was coded and changed. */
struct kvr_probe_token {
    int64_t serial;
    uint64_t hash; /* of the token's decoded K and V, all heads */
    int32_t recodes, changes;
    bool seen;
};

struct kvr_probe_counts {
    double tokens, recodes, changes;
};

struct kvr_probe {
    struct kvr_probe_opts opts;
    struct kvr_cache_shape shape; /* n_layers 0 until the first attend */
    int n_chunks;
    int kv_heads, group;     /* Hkv; query heads per KV head */
    struct kvr_dev *dev;     /* of the BF16 layers; only the method's device is accounted */
    struct kvr_scheme *bf16; /* scheme of the BF16 layers */
    struct kvr_layer *shadow;
    struct kvr_layer_scratch scratch;
    struct kvr_probe_sums *call;     /* [L][H][P][C] */
    struct kvr_probe_sums *by_age;   /* [L][H][C]: age */
    double *channel;                 /* [L][2][Hkv][D]: squared errors of K, V */
    double *channel_tokens;          /* [L]: tokens in `channel` */
    struct kvr_probe_token *token;   /* [L][capacity] */
    struct kvr_probe_counts *counts; /* [L][C]: age */
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
