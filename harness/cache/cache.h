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
 * The cache of a layer is a list of segments, each of n tokens encoded by one codec, plus the
 * current chunk in BF16. The multiplicity m_j of a token is the number of original tokens that it
 * replaces. Attention adds log m_j to the token's score and subtracts the method's correction c:
 *
 *     score(q, k_j) = q . k_j / sqrt(D) - c(q, j) + log m_j
 *
 * If there are fewer KV heads than query heads (GQA), k and v are [T,n_kv_heads,D], and byte counts
 * refer to the KV heads. A correction is computed for each query head, from the queries of that
 * head. GQA and causal masks within a chunk (shape.causal) are supported on the CPU only.
 *
 * Keys are appended after RoPE, so attention does not depend on their order in memory. A chunk's
 * last pass is normally the cache-update pass, which runs on the denoised chunk (t = 0). The K and
 * V of this pass (kvr_pass.clean) are committed, that is, quantized once. With the option
 * commit=last_step there is no cache-update pass, and the last denoising step is committed; with
 * commit=every_pass, every pass is committed. The K and V of an earlier (denoising) pass are
 * visible to that pass only. The variant NAME@study of a method reproduces the code of the
 * 33-method study. It dequantizes and requantizes the whole cache, including the current chunk,
 * after every pass. In a few methods it does so only after the cache-update pass (study_cadence).
 * NAME@study evicts no tokens.
 *
 * A cache has no locks, so two threads must not use it at the same time. Attention uses OpenMP
 * internally and gives identical bytes for any number of threads. On a CUDA device k, v, q and out
 * are device memory and calls are asynchronous. A CUDA error in these calls is reported at the next
 * kvr_dev_sync at the latest. A tier or retention policy that reads keys and values synchronises
 * the device. */
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
    KVR_ATTEND_FLOAT, /* matrix products in F32 or, on tensor cores, in BF16 with F32
                       * accumulation */
    KVR_ATTEND_INT8,  /* for quantized tokens, matrix products in int8 with int32 accumulation
                       * (attend_dot.h); for other tokens, as KVR_ATTEND_FLOAT */
};
extern const char *const kvr_attend_names[]; /* "float", "int8", NULL */
/* Finds the arithmetic of attention with this name and writes it to *out. Returns false and leaves
 * *out unchanged if there is no such name. */
bool kvr_attend_find(const char *name, enum kvr_attend_as *out);
/* Like kvr_attend_find, but an unknown name fails with kvr_name_parse()'s message about `what`. */
enum kvr_status kvr_attend_parse(enum kvr_attend_as *out, const char *what, const char *name);

struct kvr_cache_shape {
    int n_layers, n_heads, head_dim; /* numbers of layers L and query heads H, and channels per head
                                      * D */
    int n_kv_heads; /* number of KV heads; 0 means H. Query head h reads KV head h / (H /
                     * n_kv_heads) */
    bool causal;    /* whether to apply a causal mask within the current chunk */
    int tokens_per_frame;
    int frames_per_chunk;
    int capacity_frames;  /* number of latent frames of the whole rollout */
    int window_frames;    /* attention window: maximum number of visible latent frames, including
                           * the sink and the current chunk; 0 means no limit */
    int sink_frames;      /* attention sink: number of first frames of the rollout that stay
                           * visible */
    bool evict;           /* whether to evict tokens that no later pass can see (rolling buffer) */
    enum kvr_dtype exact; /* type of uncompressed tokens, KVR_BF16 (the reference) or KVR_F32 (for
                           * comparisons with recorded tensors) */
    enum kvr_attend_as attend;
    bool bf16;            /* whether, on a CPU with AMX, attention to uncompressed and dequantized
                           * tokens uses BF16 matrix products (attend_bf16.h) */
    int64_t staged_bytes; /* for path `staged` on a CUDA device: maximum bytes of the scratch for
                           * tokens dequantized to BF16; 0 means no limit */
};

/* How attention reads quantized tokens. The results of all paths agree up to rounding. */
enum kvr_path {
    KVR_PATH_STAGED, /* dequantize a bounded number of tokens into scratch, attend to these tokens,
                      * and merge the softmax states */
    KVR_PATH_FUSED,  /* dequantize inside the attention loop, without scratch */
    KVR_PATH_DENSE,  /* dequantize all tokens visible to the pass into an uncompressed copy, then
                      * attend to this copy */
    /* Works like the code of the 33-method study. Each pass dequantizes all past tokens of a layer
     * to F32, also invisible ones, and converts them to a copy of type shape.exact. The current
     * chunk is copied into this copy, and attention reads the visible tokens of the copy. */
    KVR_PATH_DECODED,
};
extern const char *const kvr_path_names[]; /* NULL-terminated */
/* Whether this path attends to an uncompressed copy of the cache. Such a path supports neither
 * corrections nor int8 attention, because the copy does not show which tokens were quantized. */
static inline bool kvr_path_copies(enum kvr_path path)
{
    return path == KVR_PATH_DENSE || path == KVR_PATH_DECODED;
}
/* Finds the path with this name and writes it to *out. Returns false and leaves *out unchanged if
 * there is no such path. */
bool kvr_path_find(const char *name, enum kvr_path *out);
/* Like kvr_path_find, but an unknown name fails with kvr_name_parse()'s message about `what`. */
enum kvr_status kvr_path_parse(enum kvr_path *out, const char *what, const char *name);

struct kvr_pass {
    int chunk;    /* 0, 1, ... */
    int frame0;   /* index of the chunk's first frame in the rollout */
    int n_frames; /* frames in the chunk */
    int index;    /* index of the pass within the chunk: denoising steps have 0, 1, ...; a
                   * cache-update pass after them has the number of denoising steps */
    bool clean;   /* whether the K and V of the pass are committed: true for the cache-update pass,
                   * and with option commit=last_step for the last denoising step */
    bool cut;     /* whether the chunk begins a shot, that is, has another prompt than the previous
                   * chunk */
    /* Number of frames by which earlier prompt switches shift the chunk's temporal RoPE positions.
     * If it is not 0 and a component of the method undoes RoPE by frame number,
     * kvr_cache_begin_pass fails with KVR_EUNSUPPORTED. */
    double shift;
};

/* Current sizes of a cache, computed by kvr_cache_bytes. */
struct kvr_cache_bytes {
    int64_t tokens;     /* number of tokens per layer that an uncompressed cache would store now;
                         * all tokens of the rollout for NAME@study, which allocates them at once */
    size_t bf16;        /* bytes of K and V of `tokens` tokens in BF16, summed over all layers */
    size_t nominal;     /* nominal bytes: computed size of all layers in the packed format */
    size_t resident;    /* allocated bytes of segments and of policy states, with memory tags
                         * KVR_MEM_KV and KVR_MEM_META */
    size_t resident_kv; /* bytes of quantized codes (tag KVR_MEM_KV), which `resident` includes */
    struct kvr_varying varying;
};

struct kvr_cache;
struct kvr_layer;
struct kvr_visible;

/* Opens an empty cache and allocates its scratch buffers. `scheme` must outlive the cache. */
enum kvr_status kvr_cache_open(struct kvr_cache **out, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path);
/* Frees the cache and sets *c to NULL. */
void kvr_cache_close(struct kvr_cache **c);

/* Bytes of scratch (tag KVR_MEM_SCRATCH) that kvr_cache_open would allocate in the memory of the
 * cache's device, if this device is of type `backend`. Any scratch that a pass allocates in
 * addition is freed by the end of the pass. */
size_t kvr_cache_scratch_bytes(const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path, enum kvr_backend backend);

/* Prepares the cache for a new video: removes all tokens, and resets the policies' states and the
 * measured times. */
void kvr_cache_reset(struct kvr_cache *c);

/* Evicts every frame whose index is at least `frames`, as if it had left the window. If `frames` is
 * 0, the states of the method's policies (tiers and retention) are reset; otherwise they are
 * unchanged. The caller may then store the evicted chunks again, in ascending order, and may skip
 * chunks. The function must not be called within a pass. */
enum kvr_status kvr_cache_drop(struct kvr_cache *c, int frames);
/* Whether any frame of [frame0, frame0 + n) is visible to the chunk that starts at `frame`, given
 * the window and the sink of the cache's shape. */
bool kvr_cache_in_window(const struct kvr_cache *c, int frame0, int n, int frame);

/* Begins a pass of the model, in which every layer appends its keys and values and attends to the
 * cache. The passes of successive chunks must come in temporal order, and all passes of a chunk
 * must have the same frames. A pass that repeats the last committed chunk replaces the committed
 * tokens. */
enum kvr_status kvr_cache_begin_pass(struct kvr_cache *c, const struct kvr_pass *pass);

/* Copies the current chunk's k and v [T,H,D] of this layer into a buffer, rounded to the type
 * shape.exact. T is n_frames * tokens_per_frame. The copy is valid until the next append. */
enum kvr_status kvr_cache_append(struct kvr_cache *c, int layer, const float *k, const float *v);
/* Sets *k and *v [T,H,D] to the buffers that kvr_cache_append fills. A kernel may write BF16 keys
 * and values to these buffers directly; the caller then calls kvr_cache_append with k and v NULL.
 * Returns false if the cache's uncompressed tokens are not BF16. */
bool kvr_cache_current(const struct kvr_cache *c, kvr_bf16 **k, kvr_bf16 **v);

/* Computes out = softmax(q K^T / sqrt(D)) V over the visible past and the current chunk.
 * Multiplicities and the method's correction change the scores as in the formula at the top of this
 * file. If kvr_pass.clean is true or the method stores chunks after every pass, the chunk is stored
 * after its attention. On KVR_ENOMEM the cache is unchanged. */
enum kvr_status kvr_cache_attend(struct kvr_cache *c, int layer, const float *q, float *out);

/* Whether kvr_cache_attend_bf16, which has BF16 queries and output, may be called. The cache must
 * be on a CUDA device, and its uncompressed tokens must be BF16. The cache must use the arithmetic
 * KVR_ATTEND_FLOAT and have no observer. head_dim must be a multiple of 16, at most 128. The
 * retention policy must not read attention weights or queries, and must not select tokens per head.
 * The only supported correction is `taylor`, on path `fused`. */
bool kvr_cache_attends_bf16(const struct kvr_cache *c);
/* Like kvr_cache_attend, with queries and output in BF16, 16-byte aligned. Must be called only if
 * kvr_cache_attends_bf16 returns true. */
enum kvr_status kvr_cache_attend_bf16(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                      kvr_bf16 *out);
/* Like kvr_cache_attend_bf16, for queries to which RMSNorm and RoPE (`norm`) are applied first. If
 * all keys are stored as BF16 rows, the attention kernel applies `norm` while it loads the queries.
 * Otherwise a separate kernel first writes the normalized queries to `out`; attention reads them
 * there and then overwrites `out`. */
enum kvr_status kvr_cache_attend_normed(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                        const struct kvr_query_norm *norm, kvr_bf16 *out);

/* Commits the appended keys and values without computing attention. The pass must be a cache-update
 * pass (kvr_pass.clean). */
enum kvr_status kvr_cache_commit(struct kvr_cache *c, int layer);

/* From this call on, kvr_cache_attend writes to `past` [L,T,H] the sum of each query's softmax
 * weights over the tokens of past chunks. T is the pass's number of tokens, and each layer writes
 * its own slice. With `past` NULL, kvr_cache_attend stops writing these sums. If `past` is not NULL
 * and shape.causal is false, the function fails with KVR_EUNSUPPORTED. */
enum kvr_status kvr_cache_collect_past_share(struct kvr_cache *c, float *past);

/* Sets the oracle scores: one score for each layer and token, computed from a complete earlier run
 * of the model. A retention policy that requests them (kvr_thin_needs.oracle_scores) selects tokens
 * by these scores. The caller must keep `table` [L][capacity tokens] allocated while the cache uses
 * it. If the policy requests scores and `table` is NULL or was never set, kvr_cache_attend and
 * kvr_cache_commit fail with KVR_EUNSUPPORTED when they store a chunk. */
void kvr_cache_set_salience(struct kvr_cache *c, const float *table);

/* Ends the pass. Between kvr_cache_end_pass and the next kvr_cache_begin_pass, the caller must
 * neither append keys and values nor compute attention. */
enum kvr_status kvr_cache_end_pass(struct kvr_cache *c);

/* Whether the current pass commits no tokens and has no observer. The passes of a chunk that commit
 * nothing launch the same kernels on the same buffers, so they can be replayed as one CUDA
 * graph. */
bool kvr_cache_only_reads(const struct kvr_cache *c);

/* Sets *out to the current sizes of the cache. */
void kvr_cache_bytes(const struct kvr_cache *c, struct kvr_cache_bytes *out);

/* Writes to k and v the decoded keys and values of the layer's committed tokens that are visible to
 * the latest pass, oldest first. If that pass committed its own chunk, the chunk is included. k and
 * v [n_tok,H,D] are F32 in host memory; a NULL pointer is allowed and skips the keys or the values.
 * Sets *n to the number of tokens n_tok; after a failure *n is 0. Fails if a joint codec cannot
 * decode, or on a device error. */
enum kvr_status kvr_cache_read(const struct kvr_cache *c, int layer, float *k, float *v,
                               int64_t *n);

/* Inputs and output of attention in one layer of one pass, which are passed to an observer. The
 * pointers are valid only during the observer's call. */
struct kvr_cache_view {
    const struct kvr_scheme *scheme;
    const struct kvr_cache_shape *shape;
    enum kvr_path path;
    const struct kvr_pass *pass;
    int layer;
    const struct kvr_layer *past;   /* stored segments (layer.h) */
    const struct kvr_visible *seen; /* tokens of `past` that are visible to the pass */
    int64_t n_tok;                  /* T, the number of tokens of the current chunk */
    const void *k, *v;              /* keys and values of the current chunk, [T,H,D] of type
                                     * shape->exact */
    const float *q, *out;           /* [T,H,D] */
};                                  /* All pointers point to host memory. Data in device memory are
                                     * copied to the host before the call. */

/* Sets the cache's observer: every later kvr_cache_attend and kvr_cache_commit calls fn(ctx, view)
 * before it stores keys and values. In kvr_cache_commit, view->q and view->out are NULL. An `fn` of
 * NULL removes the observer. If `fn` fails, kvr_cache_attend or kvr_cache_commit returns the status
 * of `fn`. */
typedef enum kvr_status kvr_cache_observer_fn(void *ctx, const struct kvr_cache_view *view);
void kvr_cache_observe(struct kvr_cache *c, kvr_cache_observer_fn *fn, void *ctx);

/* Time since the last reset, in nanoseconds, by phase. */
struct kvr_cache_times {
    int64_t encode_ns, decode_ns, attend_ns; /* device time of storing chunks, of dequantization and
                                              * of attention; encode_ns and attend_ns do not include
                                              * dequantization */
    int64_t observer_ns;                     /* host time of the observer (kvr_cache_observe) and of
                                              * the copies for it; 0 without an observer */
};
/* Synchronizes the device and writes the time of each phase since the last reset to *out. If the
 * device reports an error, *out is not written. */
enum kvr_status kvr_cache_times(const struct kvr_cache *c, struct kvr_cache_times *out);

#ifdef __cplusplus
}
#endif
#endif
