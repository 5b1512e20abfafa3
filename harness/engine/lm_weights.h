/* lm_weights.h - reads the weights of a language model from a GGUF file. Private to harness/engine.
 *
 * Weight matrices are converted to F32 once and packed for matrix products. The token embedding is
 * read row by row from the memory-mapped file. The logits are computed with output.weight, or with
 * a packed copy of the embedding if the file has no output.weight. */
#ifndef KVR_ENGINE_LM_WEIGHTS_H
#define KVR_ENGINE_LM_WEIGHTS_H

#include "harness/device/array.h"
#include "harness/engine/gemm.h"
#include "harness/engine/model.h"
#include "harness/files/weights/weights.h"

struct kvr_lm_block {
    struct kvr_linear *q, *k, *v, *o;           /* q, o: [d,d]; k, v: [n_kv_heads * head_dim, d] */
    struct kvr_linear *gate, *up, *down;        /* gate, up: [f,d]; down: [d,f] */
    const float *attn_norm, *ffn_norm;          /* [d] */
    struct kvr_array attn_norm_of, ffn_norm_of; /* arrays to which attn_norm and ffn_norm point */
};

struct kvr_lm_weights {
    struct kvr_weights *file;
    const struct kvr_weight *embedding; /* [V,d], in the memory-mapped GGUF file */
    struct kvr_linear *output;          /* [V,d]: layer that computes the logits, from output.weight
                                         * or from the embedding */
    const float *output_norm;           /* [d] */
    struct kvr_array output_norm_of;
    int n_layers;
    struct kvr_lm_block *block; /* [n_layers] */
};

/* Checks the file's tensors against the configuration `c`, then reads and packs the weights. If
 * `look` is true, the file is checked, but no weights are read. */
enum kvr_status kvr_lm_weights_open(struct kvr_lm_weights **out, struct kvr_dev *dev,
                                    struct kvr_gemm *gemm, const struct kvr_model_config *c,
                                    const char *path, bool look);
void kvr_lm_weights_close(struct kvr_lm_weights **w); /* accepts NULL */

#endif
