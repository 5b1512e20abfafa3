/* umt5.h - UMT5, Wan's text encoder.
 *
 *     struct kvr_umt5 *e;
 *     KVR_TRY(kvr_umt5_open(&e, dev, "models_t5_umt5-xxl-enc-bf16.pth"));
 *     KVR_TRY(kvr_umt5_encode(e, texts, n, out));           out [all tokens, dim]
 *     kvr_umt5_close(&e);
 *
 * x = embedding[id]; each layer computes
 *
 *     x <- x + O softmax(Q K^T + bias[bucket(j - i)]) V      Q, K, V of rms(x) norm1; no 1 / sqrt(D)
 *     x <- x + fc2( fc1(h) gelu(gate(h)) )                   h = rms(x) norm2
 *
 * and the result is rms(x) norm. Linear layers have no bias. Every layer has its own table of
 * relative positions, 32 buckets up to distance 128. Padding is not computed: it is masked and does
 * not affect other rows.
 *
 * Weights of any floating type are read from the mapped file one matrix at a time, for all texts of
 * a call; a device holds one matrix at a time. Accumulation is F32. CUDA and CPU results differ by
 * rounding. */
#ifndef KVR_TEXT_UMT5_H
#define KVR_TEXT_UMT5_H

#include <stddef.h>
#include <stdint.h>

#include "harness/device/mem.h"

struct kvr_umt5;

struct kvr_umt5_sizes {
    int vocabulary, dim, attention, ffn, n_heads, n_layers, n_buckets;
};

/* `dev` must outlive the encoder. The encoder's sizes come from the tensors' shapes. KVR_EFORMAT: a
 * tensor is missing or has another shape; KVR_EUNSUPPORTED: heads wider than the device
 * supports. */
enum kvr_status kvr_umt5_open(struct kvr_umt5 **out, struct kvr_dev *dev, const char *path);
void kvr_umt5_close(struct kvr_umt5 **e); /* accepts NULL */
const struct kvr_umt5_sizes *kvr_umt5_sizes(const struct kvr_umt5 *e);

struct kvr_umt5_text {
    const int *ids; /* [n], n >= 1 */
    int n;
};
/* Writes the texts one after the other to out [sum of n, dim], in host memory. KVR_EINVAL: an id outside the
 * vocabulary; KVR_ENAN: a weight or a result is not finite. */
enum kvr_status kvr_umt5_encode(struct kvr_umt5 *e, const struct kvr_umt5_text *texts, int n_texts,
                                float *out);

/* Peak bytes for encoding n_tokens in one call whose longest text has `longest`, without the mapped file. On
 * CUDA: the larger of host and device memory, without the GEMM library's workspace. */
size_t kvr_umt5_bytes(const struct kvr_umt5_sizes *s, int64_t n_tokens, int longest, int threads);

/* Called with named intermediate tensors [tokens, ...] in host memory, "block0.out", ...; for
 * tests. fn NULL: no tap. */
typedef void kvr_umt5_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_umt5_tap(struct kvr_umt5 *e, kvr_umt5_tap_fn *fn, void *ctx);

/* Bucket of the relative position d = key - query. */
int kvr_umt5_bucket(int d, int n_buckets);

#endif
