/* cache.h - the cache interface: stores K and V of past chunks, and attends to them.
 *
 *     KVR_TRY(kvr_cache_open(&c, dev, scheme, &shape, KVR_PATH_STAGED));
 *     for each chunk, for each pass:
 *         KVR_TRY(kvr_cache_begin_pass(c, &pass));
 *         for each layer:
 *             KVR_TRY(kvr_cache_append(c, layer, k, v));   k, v [T,H,D] of the current chunk
 *             KVR_TRY(kvr_cache_attend(c, layer, q, out)); q, out [T,H,D]
 *         KVR_TRY(kvr_cache_end_pass(c));
 *     kvr_cache_close(&c);
 *
 * A layer's cache is a list of segments - n tokens coded by one codec - plus the current chunk in
 * BF16:
 *
 *     score(q, k_j) = q . k_j / sqrt(D) - c(q, j) + log m_j
 *
 * With fewer KV heads than query heads (GQA) k and v are [T,n_kv_heads,D], and so is everything
 * stored and counted; a correction uses each query head's own q. GQA and causal chunks are
 * supported on the CPU only.
 *
 * Keys arrive after RoPE, so their order does not matter to attention. The K and V appended by a
 * chunk's last, clean pass are committed (coded once); those of earlier passes are visible to that
 * pass only. In the study reading the whole cache, including the current chunk's intermediate
 * state, is decoded and coded again after every pass, and nothing is evicted.
 *
 * One cache belongs to one thread; attend uses OpenMP internally and gives identical bytes for any
 * number of threads. On a CUDA device k, v, q and out are device memory and calls are asynchronous:
 * errors surface at the next kvr_dev_sync at the latest. Policies that use keys and values
 * synchronise. */
#ifndef KVR_CACHE_CACHE_H
#define KVR_CACHE_CACHE_H

#include "harness/cache/query_norm.h"
#include "harness/device/mem.h"
#include "methods/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arithmetic of attention. */
enum kvr_attend_as {
    KVR_ATTEND_FLOAT, /* F32, or BF16 on tensor cores */
    KVR_ATTEND_INT8,  /* int8 with int32 accumulation for coded tokens (attend_dot.h), F32 for
                       * others */
};
extern const char *const kvr_attend_names[]; /* "float", "int8", NULL */
/* False if there is no such name; *out is then unchanged. */
bool kvr_attend_find(const char *name, enum kvr_attend_as *out);

struct kvr_cache_shape {
    int n_layers, n_heads, head_dim; /* L, H, D: of queries and outputs */
    int n_kv_heads; /* KV heads: query head h reads KV head h / (H / n_kv_heads). 0: H */
    bool causal;    /* causal mask within the chunk */
    int tokens_per_frame;
    int frames_per_chunk;
    int capacity_frames;  /* frames of the whole rollout */
    int window_frames;    /* newest visible frames, including the current chunk; 0 = all */
    int sink_frames;      /* first frames that stay visible */
    bool evict;           /* evict tokens that no later pass can see (rolling buffer) */
    enum kvr_dtype exact; /* type of uncoded tokens. KVR_BF16: the reference; KVR_F32: for parity
                           * checks */
    enum kvr_attend_as attend;
    bool bf16; /* CPU with AMX: multiply uncoded and decoded tokens in BF16 (attend_bf16.h) */
    int64_t staged_bytes; /* path staged on a device: maximum bytes of the BF16 scratch; 0:
                           * unlimited */
};

/* How attention reads coded tokens. Results agree up to rounding. */
enum kvr_path {
    KVR_PATH_STAGED, /* decode a bounded piece into scratch, attend, merge */
    KVR_PATH_FUSED,  /* decode inside the attention loop, without scratch */
    KVR_PATH_DENSE,  /* rebuild an uncompressed cache of what the pass sees */
    /* The study's order of launches, for each pass and layer: the whole cache is decoded to F32 and
     * converted to BF16, and the current chunk is copied into this copy. Attention reads the tokens
     * of the copy that the pass sees. */
    KVR_PATH_DECODED,
};
extern const char *const kvr_path_names[]; /* NULL-terminated */
/* Whether attention reads an uncompressed copy, in which coded and uncoded keys cannot be told
 * apart. */
static inline bool kvr_path_copies(enum kvr_path path)
{
    return path == KVR_PATH_DENSE || path == KVR_PATH_DECODED;
}
/* False if there is no such path; *out is then unchanged. */
bool kvr_path_find(const char *name, enum kvr_path *out);

struct kvr_pass {
    int chunk;    /* 0, 1, ... */
    int frame0;   /* first frame of the chunk */
    int n_frames; /* frames in the chunk */
    int index;    /* 0 .. steps: index of the forward within the chunk */
    bool clean;   /* the last forward, whose K and V are kept */
    bool cut;     /* the chunk begins a shot: its prompt differs from the previous chunk's */
    double shift; /* frames added to the chunk's time positions for earlier cuts. Must be 0 if a
                     part of the method rotates keys by frame: KVR_EUNSUPPORTED */
};

/* Current bytes of the cache. */
struct kvr_cache_bytes {
    int64_t tokens;     /* tokens per layer of an uncompressed cache; in the study reading, the
                         * capacity */
    size_t bf16;        /* K and V of these tokens in BF16, all layers */
    size_t nominal;     /* size of the packed format from arithmetic, all layers */
    size_t resident;    /* allocated by segments: tags KV + META */
    size_t resident_kv; /* the part with tag KV */
    struct kvr_varying varying;
};

struct kvr_cache;
struct kvr_layer;
struct kvr_visible;

/* For a method that stores nothing, nothing is allocated. `scheme` must outlive the cache. */
enum kvr_status kvr_cache_open(struct kvr_cache **out, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path);
void kvr_cache_close(struct kvr_cache **c);

/* Bytes of KVR_MEM_SCRATCH that kvr_cache_open would allocate on this backend. Passes allocate no
 * scratch that outlives them. */
size_t kvr_cache_scratch_bytes(const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path, enum kvr_backend backend);

/* Removes all tokens, states and times, for a new video. */
void kvr_cache_reset(struct kvr_cache *c);

/* Evicts all frames but the first `frames`, as if the window had moved past them. The states of the
 * method's parts are truncated as well. Later chunks may be stored again, in order and with gaps.
 * Not within a pass. */
enum kvr_status kvr_cache_drop(struct kvr_cache *c, int frames);
/* Whether the cell's window and sink leave any of the chunk [frame0, frame0 + n) visible to a chunk
 * starting at `frame`. */
bool kvr_cache_in_window(const struct kvr_cache *c, int frame0, int n, int frame);

/* Chunks are in order; all passes of a chunk have the same frames. A pass that repeats the last
 * committed chunk replaces the committed tokens. */
enum kvr_status kvr_cache_begin_pass(struct kvr_cache *c, const struct kvr_pass *pass);

/* Copies the current chunk's k, v (T = n_frames * tokens_per_frame) of one layer, rounded to
 * shape.exact. The copy is valid until the next append. */
enum kvr_status kvr_cache_append(struct kvr_cache *c, int layer, const float *k, const float *v);
/* Destination of append, [T,H,D] each: a producer of BF16 may write there directly on the device
 * and then append NULL for both. False: the cache has another type. */
bool kvr_cache_current(const struct kvr_cache *c, kvr_bf16 **k, kvr_bf16 **v);

/* out = softmax(q K^T / sqrt(D)) V over the visible past and the current chunk. In a clean pass the
 * chunk is committed afterwards. On KVR_ENOMEM the cache is unchanged. */
enum kvr_status kvr_cache_attend(struct kvr_cache *c, int layer, const float *q, float *out);

/* Like kvr_cache_attend, with queries and output rounded to BF16 and 16-byte aligned. Must be
 * called only if kvr_cache_attends_bf16 returns true: on a device, for a BF16 cache, without an
 * observer, and unless the method needs F32 queries (a correction by moments, columns, per-head
 * tokens). */
bool kvr_cache_attends_bf16(const struct kvr_cache *c);
enum kvr_status kvr_cache_attend_bf16(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                      kvr_bf16 *out);
/* Like kvr_cache_attend_bf16, for queries that are normalised and rotated first. If all keys are
 * plain rows, attention does so while it loads the queries. Otherwise a separate pass writes the
 * resulting queries to `out`, which attention then overwrites. */
enum kvr_status kvr_cache_attend_normed(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                        const struct kvr_query_norm *norm, kvr_bf16 *out);

/* Commits the appended keys and values of a clean pass without computing attention. */
enum kvr_status kvr_cache_commit(struct kvr_cache *c, int layer);

/* From now on every attend writes the share of each query's attention that falls on the past to its
 * layer's slice of `past` [L,T,H], where T is the pass's number of tokens. `past` NULL ends this.
 * KVR_EUNSUPPORTED: the cache's chunks are not causal. */
enum kvr_status kvr_cache_collect_past_share(struct kvr_cache *c, float *past);

/* Sets the oracle scores by which a non-causal retention (kvr_thin_needs.oracle_scores) selects
 * tokens: table [L][capacity tokens], borrowed. Without a table, storing with such a method fails
 * with KVR_EUNSUPPORTED. */
void kvr_cache_set_salience(struct kvr_cache *c, const float *table);

enum kvr_status kvr_cache_end_pass(struct kvr_cache *c);

/* Whether this pass stores nothing and has no observer. Another such pass of the same chunk then
 * issues the same device work on the same memory, so the work can be replayed as a graph. */
bool kvr_cache_only_reads(const struct kvr_cache *c);

void kvr_cache_bytes(const struct kvr_cache *c, struct kvr_cache_bytes *out);

/* Reads the values that attention uses for the committed tokens visible to the last pass (including
 * the pass's own chunk once committed), oldest first: k, v [n_tok,H,D] floats in host memory.
 * Either may be NULL and is then not written. Returns the number of tokens, or -1 on a device
 * error. */
int64_t kvr_cache_read(const struct kvr_cache *c, int layer, float *k, float *v);

/* Inputs and output of attention in one layer of one pass. Borrowed for the call. */
struct kvr_cache_view {
    const struct kvr_scheme *scheme;
    const struct kvr_cache_shape *shape;
    enum kvr_path path;
    const struct kvr_pass *pass;
    int layer;
    const struct kvr_layer *past;   /* stored segments (layer.h) */
    const struct kvr_visible *seen; /* tokens of `past` that are visible to the pass */
    int64_t n_tok;                  /* T, of the current chunk */
    const void *k, *v;              /* keys and values of the current chunk, [T,H,D] of type
                                     * shape->exact */
    const float *q, *out;           /* [T,H,D] */
};                                  /* host memory; device memory is copied for the call */

/* From now on calls `fn` (NULL: stop) in every attend and commit (q, out NULL), before the pass's
 * keys and values are stored. If `fn` fails, the attend or commit returns the status of `fn`. */
typedef enum kvr_status kvr_cache_observer_fn(void *ctx, const struct kvr_cache_view *view);
void kvr_cache_observe(struct kvr_cache *c, kvr_cache_observer_fn *fn, void *ctx);

/* Nanoseconds since reset, by phase, in device time. */
struct kvr_cache_times {
    int64_t encode_ns, decode_ns, attend_ns; /* encode_ns and attend_ns exclude decode_ns */
    int64_t observer_ns;                     /* time in the observer; 0 without an observer */
};
/* Synchronises; on a device error nothing is written. */
enum kvr_status kvr_cache_times(const struct kvr_cache *c, struct kvr_cache_times *out);

#ifdef __cplusplus
}
#endif
#endif
