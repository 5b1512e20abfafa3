/* umt5.h - runs UMT5, Wan's text encoder.
 *
 *     struct kvr_umt5 *e;
 *     KVR_TRY(kvr_umt5_open(&e, dev, "models_t5_umt5-xxl-enc-bf16.pth"));
 *     KVR_TRY(kvr_umt5_encode(e, texts, n, out));           out [all tokens, dim]
 *     kvr_umt5_close(&e);
 *
 * The encoder begins with the token embeddings, x = embedding[id]. Each layer updates x as follows:
 *
 *     x <- x + O softmax(Q K^T + bias[bucket(j - i)]) V      Q, K, V of rms(x) norm1; no 1 / sqrt(D)
 *     x <- x + fc2( fc1(h) gelu(gate(h)) )                   h = rms(x) norm2
 *
 * The encoder's result is the RMSNorm of x with the weights `norm`. Linear layers have no bias.
 * Every layer has its own bias table for relative positions, with 32 buckets up to distance 128.
 * Padding tokens are masked in the original model and do not affect other tokens, so they are not
 * computed.
 *
 * Weights, of any floating-point type, are read from the mapped file one matrix at a time. The
 * activations of all texts of a call are multiplied by one weight matrix before the next one is
 * read, so that only one weight matrix is in device memory. Accumulation is F32. CUDA and CPU
 * results differ by rounding. */
#ifndef KVR_TEXT_UMT5_H
#define KVR_TEXT_UMT5_H

#include <stddef.h>
#include <stdint.h>

#include "harness/device/mem.h"

struct kvr_umt5;

struct kvr_umt5_sizes {
    int vocabulary, dim, attention, ffn, n_heads, n_layers, n_buckets;
};

/* Opens a text encoder, whose sizes come from the shapes of the file's tensors. `dev` must outlive
 * the encoder. Returns KVR_EFORMAT if a tensor is missing or the shapes of two tensors do not
 * match. Returns KVR_EUNSUPPORTED if head_dim is larger than the device supports. */
enum kvr_status kvr_umt5_open(struct kvr_umt5 **out, struct kvr_dev *dev, const char *path);
void kvr_umt5_close(struct kvr_umt5 **e); /* accepts NULL */
const struct kvr_umt5_sizes *kvr_umt5_sizes(const struct kvr_umt5 *e);

struct kvr_umt5_text {
    const int *ids; /* [n]: token ids, n >= 1 */
    int n;
};
/* Encodes all texts and writes their embeddings one after the other to out [sum of n, dim] in host
 * memory. Returns KVR_EINVAL if an id is outside the vocabulary. Returns KVR_ENAN if a weight or a
 * result is not finite. */
enum kvr_status kvr_umt5_encode(struct kvr_umt5 *e, const struct kvr_umt5_text *texts, int n_texts,
                                float *out);

/* Returns the peak memory in bytes of one kvr_umt5_encode() call. The texts of the call have
 * n_tokens tokens in total, and the longest text has `longest` tokens. The peak does not include
 * the mapped weight file. On CUDA, the peak is the larger of host and device memory, without the
 * GEMM library's workspace. */
size_t kvr_umt5_bytes(const struct kvr_umt5_sizes *s, int64_t n_tokens, int longest, int threads);

/* kvr_umt5_tap() installs a callback for tests, which receives intermediate tensors [tokens, ...]
 * in host memory with their names, such as "block0.out". If fn is NULL, the callback is removed. */
typedef void kvr_umt5_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_umt5_tap(struct kvr_umt5 *e, kvr_umt5_tap_fn *fn, void *ctx);

/* Returns the bias bucket of the relative position d = key index - query index. */
int kvr_umt5_bucket(int d, int n_buckets);

#endif
