/* umt5.h - the encoder of UMT5, which Wan reads prompts with.
 *
 *     struct kvr_umt5 *e;
 *     KVR_TRY(kvr_umt5_open(&e, dev, "models_t5_umt5-xxl-enc-bf16.pth"));
 *     KVR_TRY(kvr_umt5_encode(e, texts, n, out));           out [all tokens, dim]
 *     kvr_umt5_close(&e);
 *
 * Of x = embedding[id], layer by layer:
 *
 *     x <- x + O softmax(Q K^T + bias[bucket(j - i)]) V      of rms(x) norm1; no 1 / sqrt(D)
 *     x <- x + fc2( fc1(h) gelu(gate(h)) )                   h = rms(x) norm2
 *
 * and rms(x) norm at the end. No linear layer has a bias; every layer has a table of relative
 * positions of its own, 32 buckets to distance 128. Only the tokens that there are go through:
 * padding is masked out in the model, so that its rows change nothing.
 *
 * Weights of any floating type are read from the mapped file on demand, one matrix at a time, for all
 * texts of a call; a device holds one matrix at a time. Sums are
 * taken in F32. On a device results differ from the CPU's by roundings. */
#ifndef KVR_TEXT_UMT5_H
#define KVR_TEXT_UMT5_H

#include <stddef.h>
#include <stdint.h>

#include "harness/device/mem.h"

struct kvr_umt5;

struct kvr_umt5_sizes {
    int vocabulary, dim, attention, ffn, n_heads, n_layers, n_buckets;
};

/* `dev` outlives it. Sizes come from the tensors. KVR_EFORMAT: a tensor is missing or of another
 * shape; KVR_EUNSUPPORTED: the device cannot have heads so wide. */
enum kvr_status kvr_umt5_open(struct kvr_umt5 **out, struct kvr_dev *dev, const char *path);
void kvr_umt5_close(struct kvr_umt5 **e); /* copes with NULL */
const struct kvr_umt5_sizes *kvr_umt5_sizes(const struct kvr_umt5 *e);

struct kvr_umt5_text {
    const int *ids; /* [n], n >= 1 */
    int n;
};
/* Text after text into out [sum of n, dim] of the host. KVR_EINVAL: an id outside the vocabulary;
 * KVR_ENAN: a weight or a result is not finite. */
enum kvr_status kvr_umt5_encode(struct kvr_umt5 *e, const struct kvr_umt5_text *texts, int n_texts,
                                float *out);

/* Most that encoding so many tokens in one call, the longest text of `longest`, takes beside the
 * mapped file: what the allocator holds. With a device, most that either memory has of it, beside
 * the workspace of a library for products. */
size_t kvr_umt5_bytes(const struct kvr_umt5_sizes *s, int64_t n_tokens, int longest, int threads);

/* Called with named intermediate tensors [tokens, ...] in the host's memory; for tests. NULL: off.
 * "block0.out", ... */
typedef void kvr_umt5_tap_fn(void *ctx, const char *name, const float *data, int64_t n);
void kvr_umt5_tap(struct kvr_umt5 *e, kvr_umt5_tap_fn *fn, void *ctx);

/* Which row of the table: of d = key's place - query's. */
int kvr_umt5_bucket(int d, int n_buckets);

#endif
