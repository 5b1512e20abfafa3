/* lm.h - a language model of the Llama architecture, forward of one chunk of tokens.
 *
 *     KVR_TRY(kvr_lm_open(&lm, dev, model, 512));             requires kvr_model_is_lm(model)
 *     KVR_TRY(kvr_cache_begin_pass(cache, &pass));            one token per cache frame
 *     KVR_TRY(kvr_lm_forward(lm, cache, ids, &pass, hidden)); ids [T], hidden [T,d]
 *     KVR_TRY(kvr_cache_end_pass(cache));
 *     KVR_TRY(kvr_lm_logits(lm, n, hidden, logits));          [n,V]
 *     kvr_lm_close(&lm);
 *
 *     x = E[ids];  for each layer:
 *         n = rms(x) w,   x += W_o attention(rope(W_q n), rope(W_k n), W_v n)
 *         n = rms(x) w',  x += W_down (silu(W_gate n) * W_up n)
 *     hidden = rms(x) w'',  logits = hidden E^T
 *
 * rope rotates adjacent pairs (2i, 2i + 1) of a head by position * base^(-2i / D); GGUF files of
 * this architecture have W_q and W_k in the matching row order. Query head h reads KV head h / (H /
 * n_kv_heads). Attention is causal within the chunk (cache.h). CPU only. */
#ifndef KVR_ENGINE_LM_H
#define KVR_ENGINE_LM_H

#include "harness/cache/cache.h"
#include "harness/engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_lm;

/* Chunks of at most max_tokens. KVR_EUNSUPPORTED: not a language model, or not the CPU. */
enum kvr_status kvr_lm_open(struct kvr_lm **out, struct kvr_dev *dev, struct kvr_model *m,
                            int max_tokens);
void kvr_lm_close(struct kvr_lm **lm); /* accepts NULL */

/* The cache shape of this model; capacity, window and attention's operand type are left for the caller. */
struct kvr_cache_shape kvr_lm_cache_shape(const struct kvr_model *m, int chunk);

/* Called with the keys, after RoPE, and the values [T,n_kv_heads,D] that a layer appends. */
typedef void kvr_lm_keep_fn(void *ctx, int layer, const float *k, const float *v);
void kvr_lm_keep(struct kvr_lm *lm, kvr_lm_keep_fn *fn, void *ctx); /* fn NULL: stop */

/* KVR_EINVAL: an id outside the vocabulary, or more tokens than the context has left. */
enum kvr_status kvr_lm_forward(struct kvr_lm *lm, struct kvr_cache *cache, const int32_t *ids,
                               const struct kvr_pass *pass, float *hidden);
enum kvr_status kvr_lm_logits(struct kvr_lm *lm, int64_t n, const float *hidden, float *logits);

/* Nanoseconds spent since the model was opened. */
struct kvr_lm_times {
    int64_t linear_ns, other_ns; /* linear_ns: linear layers; other_ns: norms, RoPE and other
                                  * operations */
    int64_t logits_ns;
};
enum kvr_status kvr_lm_times(struct kvr_lm *lm, struct kvr_lm_times *out);

#ifdef __cplusplus
}
#endif
#endif
