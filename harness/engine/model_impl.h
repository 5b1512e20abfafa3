/* model_impl.h - a loaded model. Private to harness/engine. */
#ifndef KVR_ENGINE_MODEL_IMPL_H
#define KVR_ENGINE_MODEL_IMPL_H

#include "harness/core/sha256.h"
#include "harness/device/array.h"
#include "harness/engine/gemm.h"
#include "harness/engine/model.h"

struct kvr_block {
    struct kvr_linear *q, *k, *v, *o;     /* [d,d] */
    struct kvr_linear *cq, *ck, *cv, *co; /* cross-attention, [d,d] */
    struct kvr_linear *ffn0, *ffn2;       /* [f,d], [d,f] */
    const float *modulation;              /* [6,d] */
    const float *norm_q, *norm_k;         /* [d] */
    const float *cross_norm_q, *cross_norm_k;
    const float *norm3_w, *norm3_b;
};

struct kvr_model {
    struct kvr_dev *dev;
    struct kvr_model_config config;
    char sha256[KVR_SHA256_HEX], stamp[KVR_SHA256_HEX];
    char *vae; /* path of the decoder's weights; NULL if the file is missing or the model needs no
                * decoder */
    enum kvr_decoder_kind decoder;
    enum kvr_dtype decoder_compute;
    bool absent; /* the weight file or the LoRA file is missing, which only kvr_model_use.plan
                  * permits */
    struct kvr_gemm *gemm;
    struct kvr_linear *patch;         /* [d, C*ph*pw] */
    struct kvr_linear *text0, *text2; /* [d, text_dim], [d,d] */
    struct kvr_linear *time0, *time2; /* [d, freq_dim], [d,d] */
    struct kvr_linear *time_proj;     /* [6d, d] */
    struct kvr_linear *head;          /* [C*ph*pw, d] */
    const float *head_modulation;     /* [2,d] */
    struct kvr_block *blocks;         /* [n_layers] */
    struct kvr_array *vectors;        /* [n_vectors]: arrays to which head_modulation and the float
                                       * pointers in `blocks` point */
    int n_vectors;
    struct kvr_array tokens;    /* [n_vocabulary, text_dim]: token embeddings of the prompt table;
                                 * empty if the model has no vocabulary */
    struct kvr_array positions; /* [text_len, text_dim]: position embeddings of the prompt table;
                                 * empty if the model has no vocabulary */
    struct kvr_lm_weights *lm;  /* weights of a language model, which leaves the fields from `patch`
                                 * to `positions` empty; NULL for a video model */
};

#endif
