/* cache.h - the seam: stores the K and V of past chunks, and attends over them.
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
 * A layer's cache is a list of segments - n tokens held by one codec - and the current
 * chunk, uncoded:
 *
 *     score(q, k_j) = q . k_j / sqrt(D) - c(q, j) + log m_j
 *
 * With fewer KV heads than query heads k and v are [T,n_kv_heads,D], and so is all that is stored
 * and counted; a correction is of each query head's own q. On the CPU alone, as causal chunks are.
 *
 * Keys arrive after RoPE, so their order does not matter to attention. What a chunk's last,
 * clean pass appended is committed (coded once); what its earlier passes appended is seen by
 * that pass alone. In the study reading the whole cache is decoded and coded again after every
 * pass, the current chunk's passing state included, and nothing is ever evicted.
 *
 * One cache belongs to one thread; attend uses OpenMP inside and gives the same bytes for
 * any number of threads. On a CUDA device k, v, q and out are device memory and calls return
 * before the work is done: what goes wrong there shows at the next kvr_dev_sync at the latest. A
 * policy that decides by keys and values waits for them. */
#ifndef KVR_CACHE_CACHE_H
#define KVR_CACHE_CACHE_H

#include "harness/cache/query_norm.h"
#include "harness/device/mem.h"
#include "methods/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What attention multiplies. */
enum kvr_attend_as {
    KVR_ATTEND_FLOAT, /* F32, or BF16 on a device's tensor cores */
    KVR_ATTEND_INT8,  /* coded tokens as bytes summed in int32 (attend_dot.h), others as F32 */
};
extern const char *const kvr_attend_names[]; /* "float", "int8", NULL */
/* False, and *out left alone, when nothing has this name. */
bool kvr_attend_find(const char *name, enum kvr_attend_as *out);

struct kvr_cache_shape {
    int n_layers, n_heads, head_dim; /* L, H, D: of queries and outputs */
    int n_kv_heads; /* of keys and values: query head h reads head h / (H / n_kv_heads). 0: H */
    bool causal;    /* a query sees nothing of its own chunk that comes after it */
    int tokens_per_frame;
    int frames_per_chunk;
    int capacity_frames;  /* frames of the whole rollout */
    int window_frames;    /* newest frames attention may see, current chunk included; 0 = all */
    int sink_frames;      /* first frames that stay visible for ever */
    bool evict;           /* give up what no later pass can see (rolling buffer) */
    enum kvr_dtype exact; /* KVR_BF16: the reference; KVR_F32: for parity checks */
    enum kvr_attend_as attend;
};

/* How attention reads what is coded. The answers agree up to rounding. */
enum kvr_path {
    KVR_PATH_STAGED, /* decode a bounded piece into scratch, attend, merge */
    KVR_PATH_FUSED,  /* decode inside the attention loop, nothing in scratch */
    KVR_PATH_DENSE,  /* rebuild an uncoded cache of the layer, as the study does */
};
extern const char *const kvr_path_names[]; /* NULL-terminated */
/* False, and *out left alone, when no path has this name. */
bool kvr_path_find(const char *name, enum kvr_path *out);

struct kvr_pass {
    int chunk;    /* 0, 1, ... */
    int frame0;   /* first frame of the chunk */
    int n_frames; /* frames in the chunk */
    int index;    /* 0 .. steps: which forward of this chunk */
    bool clean;   /* the last one, whose K and V stay */
    bool cut;     /* the chunk begins a shot: another prompt than the chunk before it */
    double shift; /* frames that the model adds to the chunk's time positions: cuts before it. Not 0
                     only where no part of the method turns keys by their frame: KVR_EUNSUPPORTED */
};

/* Bytes of the cache as it is now. */
struct kvr_cache_bytes {
    int64_t tokens;     /* tokens an uncoded cache would hold now, in one layer; in the study
                         * reading the capacity */
    size_t bf16;        /* their K and V in BF16, all layers */
    size_t nominal;     /* format arithmetic: what the packed format needs, all layers */
    size_t resident;    /* what segments really hold: tags KV + META */
    size_t resident_kv; /* the part under tag KV */
    struct kvr_varying varying;
};

struct kvr_cache;
struct kvr_layer;
struct kvr_visible;

/* Nothing is allocated for a method that stores nothing. `scheme` must outlive the cache. */
enum kvr_status kvr_cache_open(struct kvr_cache **out, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path);
void kvr_cache_close(struct kvr_cache **c);

/* SCRATCH that kvr_cache_open would allocate on a device of this backend; a pass adds nothing
 * lasting to it. */
size_t kvr_cache_scratch_bytes(const struct kvr_scheme *scheme, const struct kvr_cache_shape *shape,
                               enum kvr_path path, enum kvr_backend backend);

/* Forget everything: a new video begins. */
void kvr_cache_reset(struct kvr_cache *c);

/* Give up all that is stored but the first `frames` frames, as if a window had passed it: parts of the
 * method forget, too. Chunks behind them may be stored again, in order, and any may be left out. Not
 * within a pass. */
enum kvr_status kvr_cache_drop(struct kvr_cache *c, int frames);
/* Whether the cell's window and sink leave any of chunk [frame0, frame0 + n) to a chunk that begins at
 * `frame`. */
bool kvr_cache_in_window(const struct kvr_cache *c, int frame0, int n, int frame);

/* Chunks come in order; the passes of one chunk have the same frames. A pass that repeats
 * the last clean pass's chunk replaces what that committed. */
enum kvr_status kvr_cache_begin_pass(struct kvr_cache *c, const struct kvr_pass *pass);

/* Copy the current chunk's k, v (T = n_frames * tokens_per_frame) of one layer, rounded to
 * shape.exact. Valid until the next append. */
enum kvr_status kvr_cache_append(struct kvr_cache *c, int layer, const float *k, const float *v);
/* Where that leaves them, [T,H,D] each: who has them as BF16 writes them there, on the device, and then
 * appends NULL for both. False: the cache holds another type. */
bool kvr_cache_current(const struct kvr_cache *c, kvr_bf16 **k, kvr_bf16 **v);

/* out = softmax(q K^T / sqrt(D)) V over the visible past and the current chunk. In a clean
 * pass the chunk is committed afterwards. On KVR_ENOMEM the cache is as before the call. */
enum kvr_status kvr_cache_attend(struct kvr_cache *c, int layer, const float *q, float *out);

/* The same of BF16 queries, into BF16: what rounded queries give, rounded. q and out at multiples of 16
 * bytes. Only where _attends_bf16: on a device, of a cache of BF16, unless somebody watches or the
 * method wants queries as floats (a correction by moments, columns, heads by themselves). */
bool kvr_cache_attends_bf16(const struct kvr_cache *c);
enum kvr_status kvr_cache_attend_bf16(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                      kvr_bf16 *out);
/* And of queries that are normalised and rotated first. Where all keys are plain rows that is done as they
 * are loaded, else by a pass that leaves them in `out`, which attention then overwrites. */
enum kvr_status kvr_cache_attend_normed(struct kvr_cache *c, int layer, const kvr_bf16 *q,
                                        const struct kvr_query_norm *norm, kvr_bf16 *out);

/* Of a clean pass: store what was appended, without attention. */
enum kvr_status kvr_cache_commit(struct kvr_cache *c, int layer);

/* From now on every attend writes what share of each query's attention falls on the past to its
 * layer's place in `past` [L,T,H], T of the pass (NULL: no more). Of causal chunks alone:
 * KVR_EUNSUPPORTED. */
enum kvr_status kvr_cache_tell_past(struct kvr_cache *c, float *past);

/* For a retention that is not causal (kvr_thin_needs.foretold): what it is told of each layer's
 * tokens, table [L][capacity tokens], borrowed. Without it such a method stores nothing:
 * KVR_EUNSUPPORTED. */
void kvr_cache_foretell(struct kvr_cache *c, const float *table);

enum kvr_status kvr_cache_end_pass(struct kvr_cache *c);

/* Does this pass store nothing, and does nobody watch? Then another such pass of the same chunk
 * asks the device for the same work on the same memory. */
bool kvr_cache_only_reads(const struct kvr_cache *c);

void kvr_cache_bytes(const struct kvr_cache *c, struct kvr_cache_bytes *out);

/* What attention reads of the committed tokens visible to the last pass (its own chunk
 * included once committed), oldest first: k, v [n_tok,H,D] floats of the host, either may be NULL.
 * Returns the number of tokens; with both NULL only that; -1 when the device failed. */
int64_t kvr_cache_read(const struct kvr_cache *c, int layer, float *k, float *v);

/* What attention read in one layer of one pass, and what it returned. Borrowed for the call. */
struct kvr_cache_view {
    const struct kvr_scheme *scheme;
    const struct kvr_cache_shape *shape;
    enum kvr_path path;
    const struct kvr_pass *pass;
    int layer;
    const struct kvr_layer *past;   /* what is stored (layer.h) ... */
    const struct kvr_visible *seen; /* ... of which the pass saw these tokens */
    int64_t n_tok;                  /* T, of the current chunk */
    const void *k, *v;              /* its [T,H,D] in shape->exact */
    const float *q, *out;           /* [T,H,D] */
};                                  /* host memory throughout; a device's is copied for the call */

/* Shows every attend, and every commit (q, out NULL), to `fn` (NULL: nobody) before the pass's keys
 * and values are stored. What it returns, if not KVR_OK, becomes the call's own status. */
typedef enum kvr_status kvr_cache_watch_fn(void *ctx, const struct kvr_cache_view *view);
void kvr_cache_watch(struct kvr_cache *c, kvr_cache_watch_fn *fn, void *ctx);

/* Nanoseconds spent since reset, by phase: the device's own time. */
struct kvr_cache_times {
    int64_t encode_ns, decode_ns, attend_ns; /* encode and attend without decode */
    int64_t watch_ns;                        /* the watcher's own; 0 without one */
};
/* Waits for a device; on its error nothing is written. */
enum kvr_status kvr_cache_times(const struct kvr_cache *c, struct kvr_cache_times *out);

#ifdef __cplusplus
}
#endif
#endif
