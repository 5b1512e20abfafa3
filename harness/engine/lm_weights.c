/* lm_weights.c - see lm_weights.h. */
#include "harness/engine/lm_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LEN = 64 };

struct loader {
    struct kvr_lm_weights *w;
    struct kvr_dev *dev;
    struct kvr_gemm *gemm;
    const struct kvr_model_config *c;
    struct kvr_buf matrix; /* one tensor in F32 */
    int n_used;
    bool look; /* only check names and shapes, without reading weights */
};

/* --- metadata --------------------------------------------------------------------------- */

static enum kvr_status same_int(const struct loader *l, const char *key, int64_t want)
{
    int64_t v = 0;

    KVR_TRY(kvr_gguf_int(kvr_weights_gguf(l->w->file), key, &v));
    if (v != want)
        return kvr_fail(KVR_EFORMAT, "%s: metadata %s is %lld, but config.json has %lld",
                        kvr_weights_path(l->w->file), key, (long long)v, (long long)want);
    return KVR_OK;
}

/* Checks that a metadata value equals `want`. Both are compared as F32, the type in the file. */
static enum kvr_status same_real(const struct loader *l, const char *key, double want)
{
    double v = 0;

    KVR_TRY(kvr_gguf_real(kvr_weights_gguf(l->w->file), key, &v));
    if ((float)v != (float)want)
        return kvr_fail(KVR_EFORMAT, "%s: metadata %s is %g, but config.json has %g",
                        kvr_weights_path(l->w->file), key, v, want);
    return KVR_OK;
}

/* Refuses files whose metadata differs from config.json or names an unsupported feature. The shapes
 * of the tensors alone do not show this. */
static enum kvr_status check_metadata(const struct loader *l)
{
    static const char *const foreign[] = { "llama.rope.scaling.type", "llama.expert_count",
                                           "llama.rope.scale_linear",
                                           "llama.attention.sliding_window" };
    const struct kvr_gguf *g = kvr_weights_gguf(l->w->file);
    const struct kvr_model_config *c = l->c;
    const char *path = kvr_weights_path(l->w->file);
    struct kvr_gguf_string name;

    if (!g)
        return kvr_fail(KVR_EFORMAT, "%s: the file's format is %s, need GGUF", path,
                        kvr_weights_format_name(kvr_weights_format(l->w->file)));
    KVR_TRY(kvr_gguf_text(g, "general.architecture", &name));
    if (name.n != 5 || memcmp(name.text, "llama", 5) != 0)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: metadata general.architecture is '%.*s', need 'llama'", path,
                        (int)(name.n < 40 ? name.n : 40), name.text);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (kvr_gguf_has(g, foreign[i]))
            return kvr_fail(
                KVR_EUNSUPPORTED,
                "%s: metadata key %s describes a feature that this engine does not support", path,
                foreign[i]);
    KVR_TRY(same_int(l, "llama.block_count", c->n_layers));
    KVR_TRY(same_int(l, "llama.embedding_length", c->dim));
    KVR_TRY(same_int(l, "llama.feed_forward_length", c->ffn_dim));
    KVR_TRY(same_int(l, "llama.attention.head_count", c->n_heads));
    KVR_TRY(same_int(l, "llama.attention.head_count_kv", c->n_kv_heads));
    KVR_TRY(same_int(l, "llama.context_length", c->context_length));
    if (kvr_gguf_has(g, "llama.rope.dimension_count"))
        KVR_TRY(same_int(l, "llama.rope.dimension_count", c->dim / c->n_heads));
    KVR_TRY(same_real(l, "llama.rope.freq_base", c->rope_base));
    return same_real(l, "llama.attention.layer_norm_rms_epsilon", c->eps);
}

/* --- tensors ---------------------------------------------------------------------------- */

static enum kvr_status find(struct loader *l, const char *name, int64_t n, int64_t k,
                            const struct kvr_weight **out)
{
    const struct kvr_weight *t = kvr_weights_find(l->w->file, name);
    const int n_dims = k ? 2 : 1;
    char have[96], want[96];

    if (!t)
        return kvr_fail(KVR_ENOTFOUND, "%s: tensor '%s' is missing", kvr_weights_path(l->w->file),
                        name);
    if (t->n_dims != n_dims || t->shape[0] != n || (k && t->shape[1] != k))
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' has shape %s, the model's config.json requires %s",
                        kvr_weights_path(l->w->file), name,
                        kvr_shape_text(t->shape, t->n_dims, have, sizeof have),
                        kvr_shape_text((int64_t[]){ n, k }, n_dims, want, sizeof want));
    l->n_used++;
    *out = t;
    return KVR_OK;
}

static enum kvr_status read_floats(struct loader *l, const struct kvr_weight *t, float *to)
{
    KVR_TRY(kvr_weight_f32(t, 0, t->n, to));
    for (int64_t i = 0; i < t->n; i++)
        if (!isfinite(to[i]))
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor '%s' contains %g at element %lld; weights must be finite",
                            kvr_weights_path(l->w->file), t->name, (double)to[i], (long long)i);
    return KVR_OK;
}

static enum kvr_status pack(struct loader *l, const struct kvr_weight *t, struct kvr_linear **out)
{
    if (l->look)
        return KVR_OK;
    KVR_TRY(kvr_buf_reserve(&l->matrix, l->dev, KVR_MEM_IO, (size_t)t->n * sizeof(float)));
    KVR_TRY(read_floats(l, t, l->matrix.p));
    return kvr_linear_open(out, l->gemm, (int)t->shape[0], (int)t->shape[1], l->matrix.p, NULL);
}

static enum kvr_status load_vector(struct loader *l, const char *name, struct kvr_array *of,
                                   const float **out)
{
    const int64_t shape[1] = { l->c->dim };
    const struct kvr_weight *t = NULL;

    KVR_TRY(find(l, name, l->c->dim, 0, &t));
    if (l->look)
        return KVR_OK;
    KVR_TRY(kvr_array_alloc(of, l->dev, KVR_MEM_WEIGHTS, KVR_F32, 1, shape));
    *out = of->t.data;
    return read_floats(l, t, of->t.data);
}

static enum kvr_status load_block(struct loader *l, int i)
{
    const int d = l->c->dim, f = l->c->ffn_dim, kv = d / l->c->n_heads * l->c->n_kv_heads;
    struct kvr_lm_block *b = &l->w->block[i];
    const struct {
        const char *name;
        struct kvr_linear **to;
        int n, k;
    } matrices[] = {
        { "attn_q", &b->q, d, d },      { "attn_k", &b->k, kv, d },     { "attn_v", &b->v, kv, d },
        { "attn_output", &b->o, d, d }, { "ffn_gate", &b->gate, f, d }, { "ffn_up", &b->up, f, d },
        { "ffn_down", &b->down, d, f },
    };
    const struct kvr_weight *t = NULL;
    char name[NAME_MAX_LEN];

    for (size_t j = 0; j < sizeof matrices / sizeof *matrices; j++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, matrices[j].name);
        KVR_TRY(find(l, name, matrices[j].n, matrices[j].k, &t));
        KVR_TRY(pack(l, t, matrices[j].to));
    }
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
    KVR_TRY(load_vector(l, name, &b->attn_norm_of, &b->attn_norm));
    snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
    return load_vector(l, name, &b->ffn_norm_of, &b->ffn_norm);
}

static enum kvr_status load(struct loader *l)
{
    struct kvr_lm_weights *w = l->w;
    const struct kvr_weight *output = NULL;
    const int count = kvr_weights_count(w->file);

    KVR_TRY(check_metadata(l));
    w->block = calloc((size_t)l->c->n_layers, sizeof *w->block);
    if (!w->block)
        return kvr_fail(KVR_ENOMEM, "lm: out of memory while allocating %d layers", l->c->n_layers);
    w->n_layers = l->c->n_layers;
    KVR_TRY(find(l, "token_embd.weight", l->c->vocabulary_size, l->c->dim, &w->embedding));
    output = w->embedding;
    if (kvr_weights_find(w->file, "output.weight"))
        KVR_TRY(find(l, "output.weight", l->c->vocabulary_size, l->c->dim, &output));
    KVR_TRY(pack(l, output, &w->output));
    KVR_TRY(load_vector(l, "output_norm.weight", &w->output_norm_of, &w->output_norm));
    for (int i = 0; i < w->n_layers; i++)
        KVR_TRY(load_block(l, i));
    if (l->n_used != count)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: the file has %d tensors, but kvreel's llama model uses only %d of them",
            kvr_weights_path(w->file), count, l->n_used);
    return KVR_OK;
}

enum kvr_status kvr_lm_weights_open(struct kvr_lm_weights **out, struct kvr_dev *dev,
                                    struct kvr_gemm *gemm, const struct kvr_model_config *c,
                                    const char *path, bool look)
{
    struct loader l = { .dev = dev, .gemm = gemm, .c = c, .look = look };
    enum kvr_status st;

    l.w = calloc(1, sizeof *l.w);
    if (!l.w)
        return kvr_fail(KVR_ENOMEM, "lm: out of memory");
    st = kvr_weights_open(&l.w->file, path);
    if (st == KVR_OK)
        st = load(&l);
    kvr_buf_free(&l.matrix);
    if (st != KVR_OK) {
        kvr_lm_weights_close(&l.w);
        return st;
    }
    *out = l.w;
    return KVR_OK;
}

void kvr_lm_weights_close(struct kvr_lm_weights **pw)
{
    struct kvr_lm_weights *w = pw ? *pw : NULL;

    if (!w)
        return;
    for (int i = 0; i < w->n_layers; i++) {
        struct kvr_lm_block *b = &w->block[i];
        struct kvr_linear **const all[] = {
            &b->q, &b->k, &b->v, &b->o, &b->gate, &b->up, &b->down
        };

        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            kvr_linear_close(all[j]);
        kvr_array_free(&b->attn_norm_of);
        kvr_array_free(&b->ffn_norm_of);
    }
    free(w->block);
    kvr_linear_close(&w->output);
    kvr_array_free(&w->output_norm_of);
    kvr_weights_close(&w->file);
    free(w);
    *pw = NULL;
}
