/* model.c - loads the weights of a model folder and packs them for the linear layers. Weights are
 * found under Wan's names or under other programs' names (harness/files/weights/names.def). The
 * file must have every tensor of the configuration with its shape, and no other tensor of the
 * model. Random weights are generated one tensor at a time, so only one unpacked tensor is in
 * memory. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/core/path.h"
#include "harness/core/result_cache.h"
#include "harness/engine/draw_cuda.h"
#include "harness/engine/lm_weights.h"
#include "harness/engine/lora.h"
#include "harness/engine/model_impl.h"
#include "harness/files/weights/weights.h"

enum { NAME_MAX_LEN = 256, VECTORS_PER_BLOCK = 7 };

struct loader {
    struct kvr_model *m;
    struct kvr_weights *file;    /* file of weights; NULL: the weights are random */
    struct kvr_lora *lora;       /* NULL: no adapter */
    bool *used;                  /* whether each tensor of the file has been found */
    struct kvr_buf weight, bias; /* the current tensor as F32, before packing */
    bool look;                   /* only check names and shapes, without reading weights */
};

static enum kvr_status loader_open(struct loader *l, struct kvr_model *m, const char *path)
{
    l->m = m;
    KVR_TRY(kvr_weights_open(&l->file, path));
    KVR_TRY(kvr_weights_check_names(l->file));
    l->used = calloc((size_t)kvr_weights_count(l->file), sizeof *l->used);
    return l->used ? KVR_OK
                   : kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the model's weights",
                              path);
}

static void loader_close(struct loader *l)
{
    free(l->used);
    kvr_buf_free(&l->weight);
    kvr_buf_free(&l->bias);
    kvr_lora_close(&l->lora);
    kvr_weights_close(&l->file);
}

/* Finds tensor `name` in the file, and checks that it has exactly this shape and a floating-point
 * type. */
static enum kvr_status find(struct loader *l, const char *name, int n_dims, const int64_t *shape,
                            const struct kvr_weight **out)
{
    const struct kvr_weight *t = kvr_weights_find(l->file, name);
    const char *path = kvr_weights_path(l->file);
    char want[96], have[96];

    *out = t;
    if (!t)
        return kvr_fail(KVR_ENOTFOUND, "%s: weight '%s' is missing", path, name);
    l->used[t - kvr_weights_at(l->file, 0)] = true;
    if (t->n_dims != n_dims || memcmp(t->shape, shape, (size_t)n_dims * sizeof *shape) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: weight '%s' has shape %s, the model's config.json requires %s", path,
                        name, kvr_shape_text(t->shape, t->n_dims, have, sizeof have),
                        kvr_shape_text(shape, n_dims, want, sizeof want));
    if (!t->blocks && t->dtype != KVR_F32 && t->dtype != KVR_BF16 && t->dtype != KVR_F16)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: weight '%s' has type %s, need F32, BF16 or F16",
                        path, name, kvr_weight_type(t));
    return KVR_OK;
}

static enum kvr_status check_finite(const struct loader *l, const char *name, const float *x,
                                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] - x[i] == 0))
            return kvr_fail(KVR_ENAN,
                            "%s: weight '%s' contains %g at element %lld; weights must be finite",
                            kvr_weights_path(l->file), name, (double)x[i], (long long)i);
    return KVR_OK;
}

/* Loads a tensor as F32. A tensor of the file is read into host memory; random weights are
 * generated in device memory. */
static enum kvr_status read_f32(struct loader *l, const char *name, int n_dims,
                                const int64_t *shape, struct kvr_buf *to)
{
    const struct kvr_weight *t;
    int64_t n = 1;

    for (int i = 0; i < n_dims; i++)
        n *= shape[i];
    if (!l->file) {
        KVR_TRY(kvr_buf_reserve(to, l->m->dev, KVR_MEM_IO, (size_t)n * sizeof(float)));
        const struct kvr_draw d = kvr_draw_of(name, n_dims, shape);

        kvr_draw_to(l->m->dev, l->m->config.weights_seed, &d, n, to->p);
        return KVR_OK;
    }
    KVR_TRY(find(l, name, n_dims, shape, &t));
    if (l->look)
        return KVR_OK;
    KVR_TRY(kvr_buf_reserve(to, kvr_dev_host(l->m->dev), KVR_MEM_IO, (size_t)n * sizeof(float)));
    KVR_TRY(kvr_weight_f32(t, 0, n, to->p));
    return check_finite(l, name, to->p, n);
}

/* Loads `layer`.weight and .bias. A weight may have more than two dimensions (patch embedding). */
static enum kvr_status load_linear_shaped(struct loader *l, struct kvr_linear **out,
                                          const char *layer, int n_dims, const int64_t *shape)
{
    char name[NAME_MAX_LEN];
    int64_t k = 1;

    for (int i = 1; i < n_dims; i++)
        k *= shape[i];
    snprintf(name, sizeof name, "%s.weight", layer);
    KVR_TRY(read_f32(l, name, n_dims, shape, &l->weight));
    if (l->lora)
        KVR_TRY(kvr_lora_merge(l->lora, name, shape[0], k, l->look ? NULL : l->weight.p));
    snprintf(name, sizeof name, "%s.bias", layer);
    KVR_TRY(read_f32(l, name, 1, shape, &l->bias));
    if (l->look)
        return KVR_OK;
    return (l->file ? kvr_linear_open : kvr_linear_open_device)(out, l->m->gemm, (int)shape[0],
                                                                (int)k, l->weight.p, l->bias.p);
}

static enum kvr_status load_linear(struct loader *l, struct kvr_linear **out, const char *layer,
                                   int n, int k)
{
    const int64_t shape[2] = { n, k };

    return load_linear_shaped(l, out, layer, 2, shape);
}

static enum kvr_status load_vector(struct loader *l, const float **out, const char *name,
                                   int n_dims, const int64_t *shape)
{
    struct kvr_model *m = l->m;
    struct kvr_array *a = &m->vectors[m->n_vectors];

    assert(m->n_vectors <= VECTORS_PER_BLOCK * m->config.n_layers);
    KVR_TRY(read_f32(l, name, n_dims, shape, &l->weight));
    if (l->look)
        return KVR_OK;
    KVR_TRY(kvr_array_alloc(a, m->dev, KVR_MEM_WEIGHTS, KVR_F32, n_dims, shape));
    m->n_vectors++;
    *out = a->t.data;
    if (l->file)
        return kvr_dev_put(m->dev, a->t.data, l->weight.p, a->buf.n_bytes);
    kvr_dev_copy(m->dev, a->t.data, l->weight.p, a->buf.n_bytes);
    return KVR_OK;
}

static enum kvr_status load_block(struct loader *l, int i)
{
    const struct kvr_model_config *c = &l->m->config;
    struct kvr_block *b = &l->m->blocks[i];
    const int d = c->dim;
    const int64_t one[1] = { d }, six[3] = { 1, 6, d };
    const struct {
        const char *name;
        struct kvr_linear **to;
        int n, k;
    } linears[] = {
        { "self_attn.q", &b->q, d, d },       { "self_attn.k", &b->k, d, d },
        { "self_attn.v", &b->v, d, d },       { "self_attn.o", &b->o, d, d },
        { "cross_attn.q", &b->cq, d, d },     { "cross_attn.k", &b->ck, d, d },
        { "cross_attn.v", &b->cv, d, d },     { "cross_attn.o", &b->co, d, d },
        { "ffn.0", &b->ffn0, c->ffn_dim, d }, { "ffn.2", &b->ffn2, d, c->ffn_dim },
    };
    const struct {
        const char *name;
        const float **to;
    } vectors[] = {
        { "self_attn.norm_q.weight", &b->norm_q },
        { "self_attn.norm_k.weight", &b->norm_k },
        { "cross_attn.norm_q.weight", &b->cross_norm_q },
        { "cross_attn.norm_k.weight", &b->cross_norm_k },
        { "norm3.weight", &b->norm3_w },
        { "norm3.bias", &b->norm3_b },
    };
    char name[NAME_MAX_LEN];

    for (size_t j = 0; j < sizeof linears / sizeof *linears; j++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, linears[j].name);
        KVR_TRY(load_linear(l, linears[j].to, name, linears[j].n, linears[j].k));
    }
    for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, vectors[j].name);
        KVR_TRY(load_vector(l, vectors[j].to, name, 1, one));
    }
    snprintf(name, sizeof name, "blocks.%d.modulation", i);
    return load_vector(l, &b->modulation, name, 3, six);
}

static enum kvr_status load_weights(struct loader *l)
{
    struct kvr_model *m = l->m;
    const struct kvr_model_config *c = &m->config;
    const int d = c->dim;
    const int64_t patch[5] = { d, c->in_dim, 1, c->patch_h, c->patch_w }, two[3] = { 1, 2, d };

    KVR_TRY(load_linear_shaped(l, &m->patch, "patch_embedding", 5, patch));
    KVR_TRY(load_linear(l, &m->text0, "text_embedding.0", d, c->text_dim));
    KVR_TRY(load_linear(l, &m->text2, "text_embedding.2", d, d));
    KVR_TRY(load_linear(l, &m->time0, "time_embedding.0", d, c->freq_dim));
    KVR_TRY(load_linear(l, &m->time2, "time_embedding.2", d, d));
    KVR_TRY(load_linear(l, &m->time_proj, "time_projection.1", 6 * d, d));
    for (int i = 0; i < c->n_layers; i++)
        KVR_TRY(load_block(l, i));
    KVR_TRY(load_vector(l, &m->head_modulation, "head.modulation", 3, two));
    KVR_TRY(load_linear(l, &m->head, "head.head", c->out_dim * c->patch_h * c->patch_w, d));
    for (int i = 0; l->file && i < kvr_weights_count(l->file); i++)
        if (!l->used[i] && kvr_weights_model_name(l->file, i))
            return kvr_fail(KVR_EFORMAT,
                            "%s: weight '%s' does not belong to a model of this config.json",
                            kvr_weights_path(l->file), kvr_weights_at(l->file, i)->name);
    return l->lora ? kvr_lora_check_used(l->lora) : KVR_OK;
}

static enum kvr_status load_prompt_table(struct kvr_model *m, const char *path)
{
    const struct kvr_model_config *c = &m->config;
    const int64_t tokens[2] = { c->n_vocabulary, c->text_dim };
    const int64_t positions[2] = { c->text_len, c->text_dim };
    struct kvr_dev *host = kvr_dev_host(m->dev);
    struct kvr_st *f;
    enum kvr_status st;

    KVR_TRY(kvr_st_open(&f, path));
    st = kvr_array_read(&m->tokens, host, KVR_MEM_WEIGHTS, f, "token_embedding", 2, tokens);
    if (st == KVR_OK)
        st = kvr_array_read(&m->positions, host, KVR_MEM_WEIGHTS, f, "position_embedding", 2,
                            positions);
    kvr_st_close(&f);
    return st;
}

struct paths {
    char *config, *weights, *table;
    char *lora; /* NULL: none */
};

/* Hash of several files, computed from the hash of each file. */
struct files_hash {
    struct kvr_sha256 h;
    /* `cheap`: large files are not read, so only remembered hashes of them are used. `unknown`: a
     * large file has no remembered hash. */
    bool cheap, unknown;
};

static enum kvr_status hash_file(struct files_hash *f, const char *path)
{
    char hex[KVR_SHA256_HEX];

    if (f->cheap)
        KVR_TRY(kvr_file_sha256_known(path, hex));
    else
        KVR_TRY(kvr_file_sha256(path, hex));
    f->unknown = f->unknown || !hex[0];
    return kvr_sha256_add(&f->h, hex, strlen(hex));
}

/* Whether the user requested a decoder other than the VAE, and the decoder's file is missing. Only
 * a memory plan allows this. */
static bool lacks_decoder(const struct kvr_model *m)
{
    return m->decoder != KVR_DECODER_VAE && !m->vae;
}

/* Hashes config, weights, adapter, prompt table and decoder, in this order. For random weights, the
 * version of their generator is hashed instead of a file. */
static enum kvr_status hash_files(struct kvr_model *m, const struct paths *p, bool cheap)
{
    struct files_hash f = { .cheap = cheap };
    enum kvr_status st;

    KVR_TRY(kvr_sha256_open(&f.h));
    st = hash_file(&f, p->config);
    if (st == KVR_OK && m->config.random_weights)
        st = kvr_sha256_add(&f.h, kvr_draw_version, strlen(kvr_draw_version));
    else if (st == KVR_OK)
        st = hash_file(&f, p->weights);
    if (st == KVR_OK && p->lora)
        st = hash_file(&f, p->lora);
    if (st == KVR_OK && m->config.n_vocabulary)
        st = hash_file(&f, p->table);
    if (st == KVR_OK && m->vae)
        st = hash_file(&f, m->vae);
    f.unknown = f.unknown || lacks_decoder(m);
    if (st != KVR_OK || f.unknown) {
        kvr_sha256_close(&f.h, NULL);
        return st;
    }
    return kvr_sha256_close(&f.h, m->sha256);
}

static enum kvr_status stamp_file(struct kvr_sha256 *h, const char *path, bool *settled)
{
    char text[KVR_STAMP_LEN];

    if (!kvr_file_stamp(path, text, settled)) { /* a later open reports the error */
        *settled = false;
        return KVR_OK;
    }
    KVR_TRY(kvr_sha256_add(h, text, strlen(text)));
    return kvr_sha256_add(h, "\n", 1);
}

/* Computes the hash of the stamps (inode, size and times) of the files that hash_files() hashes.
 * `out` [KVR_SHA256_HEX] is empty if a file is missing or has a timestamp less than two seconds
 * old: a later write could leave such a file's stamp unchanged. */
static enum kvr_status stamp_files(const struct kvr_model *m, const struct paths *p, char *out)
{
    struct kvr_sha256 h;
    bool settled = true;
    enum kvr_status st;

    out[0] = 0;
    KVR_TRY(kvr_sha256_open(&h));
    st = stamp_file(&h, p->config, &settled);
    if (st == KVR_OK && !m->config.random_weights)
        st = stamp_file(&h, p->weights, &settled);
    if (st == KVR_OK && p->lora)
        st = stamp_file(&h, p->lora, &settled);
    if (st == KVR_OK && m->config.n_vocabulary)
        st = stamp_file(&h, p->table, &settled);
    if (st == KVR_OK && m->vae)
        st = stamp_file(&h, m->vae, &settled);
    if (st != KVR_OK || !settled) {
        kvr_sha256_close(&h, NULL);
        return st;
    }
    return kvr_sha256_close(&h, out);
}

/* Computes the hash of the model's files. `before` is the files' stamp (stamp_files()) from before
 * they were opened. If the stamp has not changed since, the hash belongs to the loaded bytes.
 * Otherwise m->stamp is empty. */
static enum kvr_status identify(struct kvr_model *m, const struct paths *p, const char *before,
                                const struct kvr_model_use *use)
{
    char after[KVR_SHA256_HEX];
    bool same;

    KVR_TRY(stamp_files(m, p, after));
    same = before[0] && strcmp(before, after) == 0;
    if (same && use->stamp && use->sha256 && strcmp(use->stamp, after) == 0) {
        snprintf(m->sha256, sizeof m->sha256, "%s", use->sha256);
    } else {
        KVR_TRY(hash_files(m, p, use->plan));
        KVR_TRY(stamp_files(m, p, after));
        same = before[0] && strcmp(before, after) == 0;
    }
    snprintf(m->stamp, sizeof m->stamp, "%s", same ? after : "");
    return KVR_OK;
}

static enum kvr_status lm_paths_make(struct paths *p, const char *dir,
                                     const struct kvr_model_config *c)
{
    p->config = kvr_path_join(dir, "config.json");
    p->weights = kvr_path_join(dir, c->gguf);
    if (!p->config || !p->weights)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    if (!kvr_path_exists(p->weights))
        return kvr_fail(KVR_ENOTFOUND, "%s: not found%s%s", p->weights,
                        c->fetch ? "; fetch it with " : "", c->fetch ? c->fetch : "");
    return KVR_OK;
}

/* Sets *out to the path of the first file of `names` that exists in `dir`. If none exists, *out is
 * the path of the file `otherwise` in `dir`, or NULL if `otherwise` is NULL. */
static enum kvr_status first_there(const char *dir, const char *const *names, const char *otherwise,
                                   char **out)
{
    *out = NULL;
    for (; *names; names++) {
        char *path = kvr_path_join(dir, *names);

        if (!path)
            return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
        if (kvr_path_exists(path)) {
            *out = path;
            return KVR_OK;
        }
        free(path);
    }
    if (!otherwise)
        return KVR_OK;
    *out = kvr_path_join(dir, otherwise);
    return *out ? KVR_OK : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
}

/* Names of weight files in order of precedence. Checkpoints of distilled models come first, because
 * Wan's folders also contain the teacher's weights, diffusion_pytorch_model.safetensors. */
static const char *const weights_names[] = { "dit.safetensors",
                                             "dit.pt",
                                             "self_forcing_dmd.pt",
                                             "generator.pt",
                                             "model_bf16.pt",
                                             "longlive_base.pt",
                                             "diffusion_pytorch_model.safetensors",
                                             NULL };
static const char *const decoder_files[KVR_N_DECODERS][5] = {
    [KVR_DECODER_VAE] = { "Wan2.1_VAE.pth", "Wan2.2_VAE.pth", "vae.pth", "vae.safetensors", NULL },
    [KVR_DECODER_TAEHV] = { "taew2_1.pth", "taew2_1.safetensors", NULL },
};
const char *const kvr_decoder_names[] = { "vae", "taehv", NULL };
static_assert(sizeof kvr_decoder_names / sizeof *kvr_decoder_names == KVR_N_DECODERS + 1,
              "a name for each");

/* Reports that none of the files `names` exists in `dir`. `what` is a prefix of the message. */
static enum kvr_status fail_none(const char *dir, const char *what, const char *const *names)
{
    char list[256];

    return kvr_fail(KVR_ENOTFOUND, "%s: %sneed one of the files %s; none was found", dir, what,
                    kvr_join_all(list, sizeof list, names));
}

/* Finds the paths of a model's files. If `may_lack`, the weights may be missing. */
static enum kvr_status paths_make(struct paths *p, const char *dir, bool may_lack)
{
    p->config = kvr_path_join(dir, "config.json");
    p->table = kvr_path_join(dir, "prompt_table.safetensors");
    if (!p->config || !p->table)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    KVR_TRY(first_there(dir, weights_names, may_lack ? weights_names[2] : NULL, &p->weights));
    if (!p->weights)
        return fail_none(dir, "", weights_names);
    return KVR_OK;
}

/* Finds the LoRA adapter: the file that the user gives, or else the file that config.json names. */
static enum kvr_status find_lora(struct paths *p, const char *dir, const struct kvr_model_config *c,
                                 const struct kvr_model_use *use)
{
    if (use->lora && (c->random_weights || c->is_lm))
        return kvr_fail(KVR_EINVAL,
                        "%s: adapter %s: a LoRA adapter needs a video model with trained weights; "
                        "this model's weights are %s",
                        dir, use->lora, c->is_lm ? "a language model's" : "random");
    if (!use->lora && !c->lora.file)
        return KVR_OK;
    p->lora = use->lora ? strdup(use->lora) : kvr_path_join(dir, c->lora.file);
    if (!p->lora)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    if (!use->plan && !kvr_path_exists(p->lora))
        return kvr_fail(KVR_ENOTFOUND, "%s: LoRA adapter file not found", p->lora);
    return KVR_OK;
}

static bool decodes(const struct kvr_model_config *c)
{
    return !c->latent_is_rgb && !c->random_weights && !c->is_lm;
}

enum kvr_status kvr_decoder_parse(const char *name, enum kvr_decoder_kind *out)
{
    for (int i = 0; kvr_decoder_names[i]; i++)
        if (strcmp(name, kvr_decoder_names[i]) == 0) {
            *out = (enum kvr_decoder_kind)i;
            return KVR_OK;
        }
    return kvr_fail(KVR_EINVAL, "unknown decoder '%s', need %s or %s", name,
                    kvr_decoder_names[KVR_DECODER_VAE], kvr_decoder_names[KVR_DECODER_TAEHV]);
}

/* Finds the file of the requested decoder. The file of the default decoder, the VAE, may be
 * missing. Without the file, kvreel can still compute the VAE's cost, but cannot decode pixels. */
static enum kvr_status find_decoder(struct kvr_model *m, const char *dir,
                                    const struct kvr_model_use *use)
{
    const char *const *names = decoder_files[use->decoder];

    m->decoder = use->decoder;
    m->decoder_compute = use->decoder_compute;
    if (use->decoder == KVR_DECODER_TAEHV && use->decoder_compute != KVR_F32)
        return kvr_fail(KVR_EINVAL, "%s: decoder taehv supports only decoder_compute f32, not %s",
                        dir, kvr_compute_word(use->decoder_compute));
    if (decodes(&m->config))
        KVR_TRY(first_there(dir, names, NULL, &m->vae));
    else if (use->decoder != KVR_DECODER_VAE)
        return kvr_fail(KVR_EINVAL,
                        "%s: decoder %s supports only models with trained weights that generate "
                        "latents of Wan's VAE",
                        dir, kvr_decoder_names[use->decoder]);
    else if (use->decoder_compute != KVR_F32 && !m->config.random_weights)
        return kvr_fail(KVR_EINVAL,
                        "%s: decoder_compute %s needs latents of Wan's VAE, but this model "
                        "generates no such latents",
                        dir, kvr_compute_word(use->decoder_compute));
    if (lacks_decoder(m) && !use->plan)
        return kvr_fail(KVR_ENOTFOUND,
                        "%s: decoder %s needs one of the files %s and %s; neither was found", dir,
                        kvr_decoder_names[use->decoder], names[0], names[1]);
    return KVR_OK;
}

enum kvr_status kvr_model_paths(const char *dir, const struct kvr_model_config *c,
                                enum kvr_decoder_kind decoder, struct kvr_model_paths *out)
{
    enum kvr_status st = KVR_OK;

    *out = (struct kvr_model_paths){ 0 };
    if (c->is_lm) {
        out->weights = kvr_path_join(dir, c->gguf);
        st = out->weights ? KVR_OK : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    } else if (!c->random_weights) {
        st = first_there(dir, weights_names, weights_names[c->n_vocabulary ? 0 : 2], &out->weights);
    }
    if (st == KVR_OK && c->n_vocabulary) {
        out->table = kvr_path_join(dir, "prompt_table.safetensors");
        st = out->table ? KVR_OK : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    }
    if (st == KVR_OK && decodes(c))
        st = first_there(dir, decoder_files[decoder], decoder_files[decoder][0], &out->vae);
    if (st != KVR_OK)
        kvr_model_paths_free(out);
    return st;
}

void kvr_model_paths_free(struct kvr_model_paths *p)
{
    free(p->weights);
    free(p->table);
    free(p->vae);
    *p = (struct kvr_model_paths){ 0 };
}

static enum kvr_status open_gemm(struct kvr_model *m, const struct kvr_model_use *use)
{
    KVR_TRY(kvr_gemm_open_as(&m->gemm, m->dev, use->compute));
    return use->tune ? kvr_gemm_tune(m->gemm) : KVR_OK;
}

static enum kvr_status load_lm(struct kvr_model *m, const struct paths *p,
                               const struct kvr_model_use *use)
{
    char before[KVR_SHA256_HEX];

    KVR_TRY(open_gemm(m, use));
    KVR_TRY(stamp_files(m, p, before));
    KVR_TRY(kvr_lm_weights_open(&m->lm, m->dev, m->gemm, &m->config, p->weights, use->look));
    return identify(m, p, before, use);
}

static enum kvr_status load_all(struct kvr_model *m, const struct paths *p,
                                const struct kvr_model_use *use)
{
    char before[KVR_SHA256_HEX];
    struct loader l = { 0 };
    enum kvr_status st = KVR_OK;

    if (!use->look)
        KVR_TRY(open_gemm(m, use));
    m->blocks = calloc((size_t)m->config.n_layers, sizeof *m->blocks);
    m->vectors = calloc((size_t)(VECTORS_PER_BLOCK * m->config.n_layers + 1), sizeof *m->vectors);
    if (!m->blocks || !m->vectors)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d layers", p->weights,
                        m->config.n_layers);
    KVR_TRY(stamp_files(m, p, before));
    l.m = m;
    l.look = use->look;
    if (!m->config.random_weights)
        st = loader_open(&l, m, p->weights);
    if (st == KVR_OK && p->lora)
        st = kvr_lora_open(&l.lora, p->lora, m->config.lora.rank, m->config.lora.alpha);
    if (st == KVR_OK && !(use->look && m->config.random_weights))
        st = load_weights(&l);
    loader_close(&l);
    if (st != KVR_OK)
        return st;
    if (m->config.n_vocabulary)
        KVR_TRY(load_prompt_table(m, p->table));
    return identify(m, p, before, use);
}

static enum kvr_status cut_number(const char *dir, const char *what, bool random, int wanted,
                                  int *n)
{
    if (wanted == 0 || wanted == *n)
        return KVR_OK;
    if (wanted < 0 || wanted > *n)
        return kvr_fail(KVR_EINVAL, "%s: the first %d %s were requested, but the model has %d", dir,
                        wanted, what, *n);
    if (!random)
        return kvr_fail(KVR_EINVAL,
                        "%s: the first %d of %d %s were requested, but a model with trained "
                        "weights needs all of them",
                        dir, wanted, *n, what);
    *n = wanted;
    return KVR_OK;
}

static enum kvr_status cut(struct kvr_model_config *c, const char *dir,
                           const struct kvr_model_use *use)
{
    KVR_TRY(cut_number(dir, "layers", c->random_weights, use->n_layers, &c->n_layers));
    return cut_number(dir, "denoising steps", c->random_weights, use->n_steps, &c->n_steps);
}

enum kvr_status kvr_model_open(struct kvr_model **out, struct kvr_dev *dev, const char *dir)
{
    return kvr_model_open_as(out, dev, dir, &(struct kvr_model_use){ 0 });
}

enum kvr_status kvr_model_open_as(struct kvr_model **out, struct kvr_dev *dev, const char *dir,
                                  const struct kvr_model_use *use)
{
    struct kvr_model *m = calloc(1, sizeof *m);
    struct paths p = { 0 };
    enum kvr_status st;

    if (!m)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    m->dev = dev;
    p.config = kvr_path_join(dir, "config.json");
    st = p.config ? kvr_model_config_read(&m->config, p.config)
                  : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    free(p.config);
    p.config = NULL;
    if (st == KVR_OK && use->schedule)
        st = kvr_schedule_choose(&m->config, use->schedule);
    if (st == KVR_OK && use->sampler)
        st = kvr_sampler_choose(&m->config, use->sampler);
    if (st == KVR_OK)
        st = cut(&m->config, dir, use);
    if (st == KVR_OK)
        st = m->config.is_lm ? lm_paths_make(&p, dir, &m->config)
                             : paths_make(&p, dir, m->config.random_weights || use->plan);
    if (st == KVR_OK)
        st = find_lora(&p, dir, &m->config, use);
    if (st == KVR_OK)
        st = find_decoder(m, dir, use);
    m->absent = use->plan && !m->config.is_lm && !m->config.random_weights && p.weights &&
                (!kvr_path_exists(p.weights) || (p.lora && !kvr_path_exists(p.lora)));
    if (st == KVR_OK && !m->absent)
        st = m->config.is_lm ? load_lm(m, &p, use) : load_all(m, &p, use);
    free(p.config);
    free(p.weights);
    free(p.table);
    free(p.lora);
    if (st != KVR_OK) {
        kvr_model_close(&m);
        return st;
    }
    *out = m;
    return KVR_OK;
}

static void block_close(struct kvr_block *b)
{
    struct kvr_linear **const all[] = { &b->q,  &b->k,  &b->v,  &b->o,    &b->cq,
                                        &b->ck, &b->cv, &b->co, &b->ffn0, &b->ffn2 };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kvr_linear_close(all[i]);
}

void kvr_model_shed(struct kvr_model *m)
{
    for (int i = 0; m->blocks && i < m->config.n_layers; i++)
        block_close(&m->blocks[i]);
    free(m->blocks);
    m->blocks = NULL;
    for (int i = 0; i < m->n_vectors; i++)
        kvr_array_free(&m->vectors[i]);
    free(m->vectors);
    m->vectors = NULL;
    m->n_vectors = 0;
    kvr_lm_weights_close(&m->lm);
    kvr_linear_close(&m->patch);
    kvr_linear_close(&m->text0);
    kvr_linear_close(&m->text2);
    kvr_linear_close(&m->time0);
    kvr_linear_close(&m->time2);
    kvr_linear_close(&m->time_proj);
    kvr_linear_close(&m->head);
    kvr_gemm_close(&m->gemm);
    kvr_array_free(&m->tokens);
    kvr_array_free(&m->positions);
}

void kvr_model_close(struct kvr_model **pm)
{
    struct kvr_model *m = pm ? *pm : NULL;

    if (!m)
        return;
    kvr_model_shed(m);
    kvr_model_config_free(&m->config);
    free(m->vae);
    free(m);
    *pm = NULL;
}

const struct kvr_model_config *kvr_model_config(const struct kvr_model *m)
{
    return &m->config;
}

bool kvr_model_is_lm(const struct kvr_model *m)
{
    return m->config.is_lm;
}

enum kvr_dtype kvr_model_compute(const struct kvr_model *m)
{
    return kvr_gemm_compute(m->gemm);
}

const char *kvr_model_tuned(const struct kvr_model *m)
{
    return m->gemm ? kvr_gemm_tuned(m->gemm) : "";
}

const char *kvr_model_library(const struct kvr_model *m)
{
    return kvr_gemm_library(m->gemm);
}

const char *kvr_model_sha256(const struct kvr_model *m)
{
    return m->sha256;
}

bool kvr_model_absent(const struct kvr_model *m)
{
    return m->absent;
}

const char *kvr_model_vae(const struct kvr_model *m)
{
    return m->vae;
}

enum kvr_decoder_kind kvr_model_decoder(const struct kvr_model *m)
{
    return m->decoder;
}

enum kvr_dtype kvr_model_decoder_compute(const struct kvr_model *m)
{
    return m->decoder_compute;
}

const char *kvr_model_stamp(const struct kvr_model *m)
{
    return m->stamp;
}

int kvr_model_tokens_per_frame(const struct kvr_model *m)
{
    return m->config.latent_h / m->config.patch_h * (m->config.latent_w / m->config.patch_w);
}

int kvr_model_head_dim(const struct kvr_model *m)
{
    return m->config.dim / m->config.n_heads;
}

int64_t kvr_model_frame_elems(const struct kvr_model *m)
{
    return (int64_t)m->config.in_dim * m->config.latent_h * m->config.latent_w;
}

enum kvr_status kvr_model_embed(const struct kvr_model *m, const int *ids, int n_ids, float *P)
{
    const struct kvr_model_config *c = &m->config;
    const float *tokens = m->tokens.t.data, *positions = m->positions.t.data;

    if (!c->n_vocabulary)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "model: this model has no vocabulary, so a prompt must be given as an embedding");
    if (n_ids != c->text_len)
        return kvr_fail(KVR_EINVAL, "model: the prompt has %d token ids, need exactly %d", n_ids,
                        c->text_len);
    for (int i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= c->n_vocabulary)
            return kvr_fail(
                KVR_EINVAL,
                "model: prompt id %d at position %d is not in the vocabulary, need 0..%d", ids[i],
                i, c->n_vocabulary - 1);
    for (int i = 0; i < n_ids; i++)
        for (int j = 0; j < c->text_dim; j++)
            P[(int64_t)i * c->text_dim + j] =
                tokens[(int64_t)ids[i] * c->text_dim + j] + positions[(int64_t)i * c->text_dim + j];
    return KVR_OK;
}

enum kvr_status kvr_model_draw_prompt(const struct kvr_model *m, const char *text, float *P)
{
    const struct kvr_model_config *c = &m->config;

    if (!c->random_weights)
        return kvr_fail(KVR_EUNSUPPORTED, "model: trained weights need a prompt; only random "
                                          "weights get a random prompt embedding");
    kvr_draw_prompt(c->weights_seed, text, c->text_len, c->text_dim, P);
    return KVR_OK;
}
