/* lm.h - the forward of a language model of the Llama architecture over one chunk of tokens, on the
 * CPU.
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
 * RoPE rotates each pair of adjacent elements (2i, 2i + 1) of a head by the angle position *
 * base^(-2i / D), where D is the head dimension. GGUF files of this architecture store the rows of
 * W_q and W_k in this pair order, so no rows are permuted. Of the H query heads, head h reads KV
 * head h / (H / n_kv_heads). Attention is causal within the chunk (cache.h). */
#ifndef KVR_ENGINE_LM_H
#define KVR_ENGINE_LM_H

#include "harness/cache/cache.h"
#include "harness/engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvr_lm;

/* Opens a model for chunks of at most max_tokens tokens. Returns KVR_EUNSUPPORTED if `m` is not a
 * language model or `dev` is not the CPU. */
enum kvr_status kvr_lm_open(struct kvr_lm **out, struct kvr_dev *dev, struct kvr_model *m,
                            int max_tokens);
void kvr_lm_close(struct kvr_lm **lm); /* accepts NULL */

/* Returns the shape of this model's KV cache. The caller sets the cache's capacity, its window and
 * the operand type of attention. */
struct kvr_cache_shape kvr_lm_cache_shape(const struct kvr_model *m, int chunk);

/* Callback that receives the keys after RoPE and the values, both [T,n_kv_heads,D] for T tokens,
 * that a layer appends to the KV cache. */
typedef void kvr_lm_keep_fn(void *ctx, int layer, const float *k, const float *v);
void kvr_lm_keep(struct kvr_lm *lm, kvr_lm_keep_fn *fn, void *ctx); /* fn NULL: stop */

/* Returns KVR_EINVAL if an id is outside the vocabulary, or if the tokens would exceed the model's
 * context length. */
enum kvr_status kvr_lm_forward(struct kvr_lm *lm, struct kvr_cache *cache, const int32_t *ids,
                               const struct kvr_pass *pass, float *hidden);
enum kvr_status kvr_lm_logits(struct kvr_lm *lm, int64_t n, const float *hidden, float *logits);

/* Compute time since the model was opened, in nanoseconds. */
struct kvr_lm_times {
    int64_t linear_ns, other_ns; /* linear_ns: time in linear layers; other_ns: time in norms, RoPE
                                  * and all remaining operations */
    int64_t logits_ns;
};
enum kvr_status kvr_lm_times(struct kvr_lm *lm, struct kvr_lm_times *out);

#ifdef __cplusplus
}
#endif
#endif
