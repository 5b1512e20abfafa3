/* kvreel.h - the C ABI of libkvreel.so: kvreel's methods for other programs and other languages.
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
 * Arrays are F32, row-major, in host memory. Functions return 0 or an error code below;
 * kvreel_error() has its message. A struct begins with its size as compiled into the caller; a
 * newer library treats fields that an older caller lacks as 0. No function or field is removed
 * within one KVREEL_ABI, which is the number in the library's file name. An object belongs to one
 * thread at a time; a method may be shared. Nothing here prints or exits. */
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
    KVREEL_EINVAL = 1, /* invalid name, option or shape */
    KVREEL_ENOMEM = 2,
    KVREEL_EIO = 3,
    KVREEL_EFORMAT = 5,      /* malformed file */
    KVREEL_ENOTFOUND = 6,    /* unknown method or geometry, missing file */
    KVREEL_EUNSUPPORTED = 7, /* not possible with these settings */
    KVREEL_ENAN = 11,        /* a value is not finite */
    KVREEL_EINTERNAL = 13,   /* calls in an invalid order */
};

int kvreel_abi(void); /* KVREEL_ABI of the library */
const char *kvreel_version(void);
/* Message of this thread's last failure, valid until the next one; "" if there was none. */
const char *kvreel_error(void);

/* The registry, as a JSON object of arrays: methods (name, family, title, paper, study, readings,
 * bits_per_element at 12 heads of 128), stages, paths, corrections, geometries. Free *json with kvreel_free(). */
int kvreel_registry(char **json);
void kvreel_free(void *p);

/* ---- a method ----------------------------------------------------------------------------- */

typedef struct kvreel_method kvreel_method;

/* `spec` is NAME, NAME@study or NAME@project, optionally followed by +CORRECTION. `settings` is a
 * NULL-terminated list of "key=value" (`kvreel show` lists the keys), or NULL. On failure *out is NULL. */
int kvreel_method_open(kvreel_method **out, const char *spec, const char *const *settings);
/* Accepts NULL, sets *m to NULL. Close the method's blocks and caches first. */
void kvreel_method_close(kvreel_method **m);
/* "RTN_INT4@study+taylor"; valid until the method is closed. */
const char *kvreel_method_name(const kvreel_method *m);

/* Predicts the cache bytes of a rollout of latent_frames frames without running it: a JSON object; free *json
 * with kvreel_free(). `geometry` is wan-1.3b, wan-14b, a model folder or a JSON file with the keys of a
 * config.json. */
int kvreel_predict(const kvreel_method *m, const char *geometry, int latent_frames, char **json);

/* ---- a block: keys and values of one layer -------------------------------------------------- */

typedef struct kvreel_block kvreel_block;

struct kvreel_block_shape {
    size_t size; /* sizeof(struct kvreel_block_shape) */
    int64_t n_tok;
    int32_t n_heads, head_dim;
    /* Chunks are coded one by one, in order, as a rollout commits them. tokens_per_frame 0: all tokens are one
     * frame. frames_per_chunk 0: 1. */
    int64_t tokens_per_frame;
    int32_t frames_per_chunk;
    int32_t layer, n_layers; /* for methods with settings per layer; 0, 0: a single layer */
};

struct kvreel_bytes {
    size_t size;       /* sizeof(struct kvreel_bytes) */
    int64_t tokens;    /* tokens that an uncoded cache would hold */
    uint64_t bf16;     /* size of these tokens in BF16 */
    uint64_t nominal;  /* size of the packed format, from arithmetic */
    uint64_t resident; /* allocated bytes: codes and side information */
    uint64_t codes;    /* allocated bytes of the codes alone */
};

/* Encodes keys and values k, v [n_tok,n_heads,head_dim], which are copied. On failure *out is
 * NULL. */
int kvreel_block_encode(kvreel_block **out, const kvreel_method *m, const float *k, const float *v,
                        const struct kvreel_block_shape *shape);
void kvreel_block_free(kvreel_block **b);
/* Decodes the values that attention reads, in the shape of the input; k, v or held may be NULL. held [n_tok] is
 * 0 for evicted tokens, whose values are 0, and 1 for the others. */
int kvreel_block_decode(const kvreel_block *b, float *k, float *v, uint8_t *held);
/* out = softmax(q K^T / sqrt(D)) V over the block; q, out [n_query,n_query_heads,head_dim]. With fewer KV heads
 * (GQA), query head h reads KV head h / (n_query_heads / n_heads). */
int kvreel_block_attend(const kvreel_block *b, const float *q, int64_t n_query,
                        int32_t n_query_heads, float *out);
int kvreel_block_bytes(const kvreel_block *b, struct kvreel_bytes *out);
/* SHA-256 of the stored bytes, as `kvreel codec` prints it: 64 hex digits and a NUL. */
int kvreel_block_hash(const kvreel_block *b, char hex[65]);

/* ---- a cache: all layers of a rollout -------------------------------------------------------- */

typedef struct kvreel_cache kvreel_cache;

struct kvreel_cache_shape {
    size_t size; /* sizeof(struct kvreel_cache_shape) */
    int32_t n_layers, n_heads, head_dim;
    int32_t n_kv_heads; /* 0: n_heads */
    int32_t tokens_per_frame, frames_per_chunk;
    int32_t capacity_frames; /* frames of the whole rollout */
    int32_t window_frames,
        sink_frames;    /* number of newest visible frames, 0: all; number of first frames that stay
                         * visible */
    int32_t evict;      /* evict tokens that no later pass can see */
    int32_t causal;     /* causal mask within the chunk */
    int32_t exact_f32;  /* uncoded values as F32 instead of BF16 */
    const char *path;   /* "staged", "fused", "dense"; NULL: staged */
    const char *attend; /* "float", "int8"; NULL: float */
};

int kvreel_cache_open(kvreel_cache **out, const kvreel_method *m,
                      const struct kvreel_cache_shape *shape);
void kvreel_cache_close(kvreel_cache **c);
void kvreel_cache_reset(kvreel_cache *c);
/* Begins a pass over frames [frame0, frame0 + n_frames) of one chunk; `index` counts the chunk's
 * passes from 0. The cache stores the tokens of a clean pass. Tokens of any other pass are visible
 * to that pass only. */
int kvreel_cache_begin(kvreel_cache *c, int32_t chunk, int32_t frame0, int32_t n_frames,
                       int32_t index, int32_t clean);
int kvreel_cache_append(kvreel_cache *c, int32_t layer, const float *k, const float *v);
/* Attention over the visible past and the pass's own tokens; q, out [T,n_heads,head_dim]. */
int kvreel_cache_attend(kvreel_cache *c, int32_t layer, const float *q, float *out);
/* Stores the appended tokens of a clean pass without computing attention. */
int kvreel_cache_commit(kvreel_cache *c, int32_t layer);
int kvreel_cache_end(kvreel_cache *c);
/* Stored tokens of a layer that the next pass may see, oldest first: k, v [n,n_kv_heads,head_dim];
 * either may be NULL; with both NULL the call only sets *n. */
int kvreel_cache_read(const kvreel_cache *c, int32_t layer, float *k, float *v, int64_t *n);
int kvreel_cache_bytes(const kvreel_cache *c, struct kvreel_bytes *out);
/* Nanoseconds spent in encoding, decoding and attention since the cache was opened or reset. */
int kvreel_cache_times(const kvreel_cache *c, int64_t *encode_ns, int64_t *decode_ns,
                       int64_t *attend_ns);

/* Converts n numbers of type "F32", "F64", "F16", "BF16", "F8_E4M3" or "F8_E5M2" to F32. */
int kvreel_to_f32(float *to, const void *from, const char *type, size_t n);

#ifdef __cplusplus
}
#endif
#endif
