/* kvreel.h - the C ABI of libkvreel.so, for programs in any language that use kvreel's compression
 * methods.
 *
 *     #include <kvreel.h>              cc mine.c $(pkg-config --cflags --libs kvreel)
 *
 *     kvreel_method *m;
 *     kvreel_block *b;
 *     struct kvreel_block_shape s = { sizeof s, .n_tok = 4680, .n_heads = 12, .head_dim = 128 };
 *     if (kvreel_method_open(&m, "RTN_INT4", (const char *const[]){ "group=16", NULL }) ||
 *         kvreel_block_encode(&b, m, k, v, &s))
 *         puts(kvreel_error());
 *     kvreel_block_decode(b, k2, v2, NULL);
 *     kvreel_block_free(&b);
 *     kvreel_method_close(&m);
 *
 * All arrays are F32 and row-major, in host memory. Functions that return int return KVREEL_OK or
 * an error code; kvreel_error() returns the error message. The caller sets `size`, the first member
 * of each struct, to the size of the struct in bytes. If the caller was compiled for an older
 * library, members that its structs lack are treated as 0. KVREEL_ABI is the number in the
 * library's file name. A newer library with the same KVREEL_ABI has all functions and struct
 * members of the older one. Only one thread at a time may use a block or a cache; several threads
 * may share a method. No function prints, and none ends the process. */
#ifndef KVREEL_H
#define KVREEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVREEL_ABI 1

enum kvreel_status {
    KVREEL_OK = 0,
    KVREEL_EINVAL = 1, /* a name, an option or a shape is invalid */
    KVREEL_ENOMEM = 2,
    KVREEL_EIO = 3,
    KVREEL_EFORMAT = 5,      /* malformed file */
    KVREEL_ENOTFOUND = 6,    /* a method or geometry is unknown, or a file is missing */
    KVREEL_EUNSUPPORTED = 7, /* the method does not support these settings */
    KVREEL_ENAN = 11,        /* an input or result is not finite */
    KVREEL_EINTERNAL = 13,   /* functions were called in an invalid order, or kvreel has a bug */
};

int kvreel_abi(void); /* the value of KVREEL_ABI with which the library was compiled */
const char *kvreel_version(void);
/* Returns the message of the last call that failed in this thread, or "" if none has failed. A
 * successful call does not clear the message. The text is valid until the next failure in this
 * thread. */
const char *kvreel_error(void);

/* Sets *json to the registry, a JSON object of the arrays "methods", "stages" (of codecs), "paths",
 * "corrections" and "geometries". A method has "name", "family", "title", "paper" (citation),
 * "study" (whether the 33-method study measured it), "readings" (its variants, as specs for
 * kvreel_method_open) and "bits_per_element" (for 12 heads of dimension 128, or null). Free *json
 * with kvreel_free(). */
int kvreel_registry(char **json);
/* Frees memory that a function of this library returned. Accepts NULL. */
void kvreel_free(void *p);

/* ---- a method ----------------------------------------------------------------------------- */

typedef struct kvreel_method kvreel_method;

/* Opens a method. `spec` names a variant of a method. NAME is the variant of the method's own
 * paper. NAME@study is the variant in the code of the paper "KV Cache Quantization for Self-Forcing
 * Video Generation, A 33-Method Empirical Study". NAME@project is the variant in the code of
 * another project. An optional suffix +CORRECTION adds a correction of the attention scores.
 * `settings` is NULL or a NULL-terminated list of "key=value" strings. The command `kvreel show`
 * lists the keys. On failure *out is NULL. */
int kvreel_method_open(kvreel_method **out, const char *spec, const char *const *settings);
/* Closes the method *m and sets *m to NULL. If *m is NULL, nothing happens. The caller must first
 * close the method's blocks and caches. */
void kvreel_method_close(kvreel_method **m);
/* Returns the method's full name, such as "RTN_INT4@study+taylor", which is valid until the method
 * is closed. */
const char *kvreel_method_name(const kvreel_method *m);

/* Predicts the cache size of a rollout of latent_frames latent frames without running it. Sets
 * *json to a JSON object, which the caller frees with kvreel_free(). `geometry` is wan-1.3b,
 * wan-14b, wan-5b, a model folder, or a JSON file with the keys of a model's config.json. */
int kvreel_predict(const kvreel_method *m, const char *geometry, int latent_frames, char **json);

/* ---- a block: keys and values of one layer -------------------------------------------------- */

typedef struct kvreel_block kvreel_block;

struct kvreel_block_shape {
    size_t size; /* sizeof(struct kvreel_block_shape) */
    int64_t n_tok;
    int32_t n_heads, head_dim;
    /* Tokens are quantized in chunks of frames_per_chunk * tokens_per_frame tokens, as a rollout
     * stores them in the cache. Variants NAME@study quantize all tokens at once. If
     * tokens_per_frame is 0, all tokens are one frame. A frames_per_chunk of 0 means 1. */
    int64_t tokens_per_frame;
    int32_t frames_per_chunk;
    /* Index of the layer and number of layers, for methods whose settings differ between layers.
     * Both are 0 for a single layer. */
    int32_t layer, n_layers;
};

struct kvreel_bytes {
    size_t size;       /* sizeof(struct kvreel_bytes) */
    int64_t tokens;    /* number of tokens that a cache without compression would store */
    uint64_t bf16;     /* bytes of `tokens` tokens in BF16 */
    uint64_t nominal;  /* bytes of the compressed tokens in the packed format (computed) */
    uint64_t resident; /* allocated bytes of codes, scales and other side information */
    uint64_t codes;    /* allocated bytes of the quantization codes only */
};

/* Encodes the keys k and values v, both [n_tok,n_heads,head_dim], into a new block that does not
 * refer to k and v. On failure *out is NULL. */
int kvreel_block_encode(kvreel_block **out, const kvreel_method *m, const float *k, const float *v,
                        const struct kvreel_block_shape *shape);
void kvreel_block_free(kvreel_block **b);
/* Decodes keys and values, as attention reads them, to k and v [n_tok,n_heads,head_dim]. `held`
 * [n_tok] receives 1 for each stored token and 0 for each evicted token. Keys and values of evicted
 * tokens are set to 0. Each of `k`, `v` and `held` may be NULL. */
int kvreel_block_decode(const kvreel_block *b, float *k, float *v, uint8_t *held);
/* Computes attention over the block, out = softmax(q K^T / sqrt(head_dim)) V, with q and out
 * [n_query,n_query_heads,head_dim]. With grouped-query attention (n_query_heads > n_heads), query
 * head h reads KV head h / (n_query_heads / n_heads). Returns KVREEL_EINVAL if the method evicted
 * every token of a head. */
int kvreel_block_attend(const kvreel_block *b, const float *q, int64_t n_query,
                        int32_t n_query_heads, float *out);
int kvreel_block_bytes(const kvreel_block *b, struct kvreel_bytes *out);
/* Writes the SHA-256 of the block's stored bytes as 64 hex digits and a NUL. The command `kvreel
 * codec` prints the same hash. */
int kvreel_block_hash(const kvreel_block *b, char hex[65]);

/* ---- a cache: all layers of a rollout -------------------------------------------------------- */

typedef struct kvreel_cache kvreel_cache;

struct kvreel_cache_shape {
    size_t size; /* sizeof(struct kvreel_cache_shape) */
    int32_t n_layers, n_heads, head_dim;
    int32_t n_kv_heads; /* 0: n_heads */
    int32_t tokens_per_frame, frames_per_chunk;
    int32_t capacity_frames; /* number of latent frames of the whole rollout */
    /* Attention sees at most window_frames latent frames (0: all). These are the first sink_frames
     * frames of the rollout and the newest window_frames - sink_frames frames, which include the
     * current chunk. */
    int32_t window_frames, sink_frames;
    int32_t evict;     /* nonzero: free the memory of tokens that no later pass can see */
    int32_t causal;    /* nonzero: causal mask within the chunk */
    int32_t exact_f32; /* nonzero: store keys and values that are not quantized as F32 instead of
                        * BF16 */
    /* Where tokens are dequantized. The results of all paths agree up to rounding.
     * "staged" or NULL: into scratch memory, a bounded number of tokens at a time.
     * "fused": inside the attention loop.
     * "dense": into an uncompressed copy of all visible tokens.
     * "decoded": into a BF16 copy of the layer's whole cache, as in the 33-method study's code. */
    const char *path;
    const char *attend; /* arithmetic of attention, "float" or "int8" (NULL: float) */
};

int kvreel_cache_open(kvreel_cache **out, const kvreel_method *m,
                      const struct kvreel_cache_shape *shape);
void kvreel_cache_close(kvreel_cache **c);
void kvreel_cache_reset(kvreel_cache *c);
/* Begins a forward pass of the model over latent frames [frame0, frame0 + n_frames) of one chunk.
 * `index` is the number of the pass within its chunk, from 0. If `clean` is nonzero, the cache
 * stores the pass's tokens; otherwise only this pass sees them. */
int kvreel_cache_begin(kvreel_cache *c, int32_t chunk, int32_t frame0, int32_t n_frames,
                       int32_t index, int32_t clean);
/* Passes one layer's keys k and values v, both [T,n_kv_heads,head_dim], of the tokens of the pass
 * that kvreel_cache_begin began. T = n_frames * tokens_per_frame. */
int kvreel_cache_append(kvreel_cache *c, int32_t layer, const float *k, const float *v);
/* Computes attention of the pass's T queries over the visible stored tokens and the tokens of this
 * pass. Both q and out are [T,n_heads,head_dim], where T = n_frames * tokens_per_frame is the
 * pass's number of tokens. */
int kvreel_cache_attend(kvreel_cache *c, int32_t layer, const float *q, float *out);
/* Stores the tokens that kvreel_cache_append passed for the layer, without computing attention. The
 * function is for passes begun with `clean`. There it replaces kvreel_cache_attend, which stores
 * these tokens too, for layers whose attention output is not needed. */
int kvreel_cache_commit(kvreel_cache *c, int32_t layer);
int kvreel_cache_end(kvreel_cache *c);
/* Decodes those stored tokens of layer `layer` that the most recently begun pass may see. Writes
 * them, oldest first, to k and v [*n,n_kv_heads,head_dim]. The arrays k and v may be NULL. If both
 * are NULL, the function only sets *n. */
int kvreel_cache_read(const kvreel_cache *c, int32_t layer, float *k, float *v, int64_t *n);
int kvreel_cache_bytes(const kvreel_cache *c, struct kvreel_bytes *out);
/* Returns the time in nanoseconds spent in encoding, decoding and attention since the cache was
 * opened or last reset. */
int kvreel_cache_times(const kvreel_cache *c, int64_t *encode_ns, int64_t *decode_ns,
                       int64_t *attend_ns);

/* Converts the n numbers at `from` to F32. `type` is "F32", "F64", "F16", "BF16", "F8_E4M3" or
 * "F8_E5M2". */
int kvreel_to_f32(float *to, const void *from, const char *type, size_t n);

#ifdef __cplusplus
}
#endif
#endif
