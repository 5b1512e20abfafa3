/* tiny_model.c - writes a small model folder in the format that harness/engine/model.c reads. */
#include "tests/tiny_model.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "harness/core/safetensors.h"

enum { MAX_ITEMS = 400 };

struct writer {
    const struct tiny_fault *fault;
    struct kvr_st_item items[MAX_ITEMS];
    int n;
};

static void add_named(struct writer *w, const char *name, int n_dims, const int64_t *shape,
                      int fan_in, enum kvr_dtype dtype)
{
    struct kvr_st_item *it = &w->items[w->n];
    int64_t n = 1;
    float *x;

    ck_assert_int_lt(w->n, MAX_ITEMS);
    it->t.dtype = dtype;
    it->t.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        n *= it->t.shape[i] = shape[i];
    x = malloc((size_t)n * sizeof *x);
    it->t.data = malloc((size_t)n * kvr_dtype_size(dtype));
    it->name = strdup(name);
    ck_assert(x && it->t.data && it->name);
    kvr_normal(x, (size_t)n, 11, KVR_RNG_WEIGHTS, (uint32_t)w->n, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] /= sqrtf((float)fan_in);
    if (w->fault->nan && strcmp(name, w->fault->nan) == 0)
        x[n - 1] = NAN;
    kvr_from_f32(it->t.data, dtype, x, (size_t)n);
    free(x);
    w->n++;
}

static void add(struct writer *w, const char *name, int n_dims, const int64_t *shape)
{
    const struct tiny_fault *f = w->fault;
    int64_t grown[KVR_MAX_DIMS];
    int fan_in = n_dims > 1 ? (int)shape[1] : 4;
    char full[256];

    if (f->without && strcmp(name, f->without) == 0)
        return;
    memcpy(grown, shape, (size_t)n_dims * sizeof *shape);
    if (f->misshape && strcmp(name, f->misshape) == 0)
        grown[n_dims - 1]++;
    snprintf(full, sizeof full, "%s%s", f->prefix ? f->prefix : "", name);
    add_named(w, full, n_dims, grown, fan_in, f->dtype);
    if (f->twice && strcmp(name, f->twice) == 0) {
        snprintf(full, sizeof full, "model.%s", name);
        add_named(w, full, n_dims, grown, fan_in, f->dtype);
    }
}

static void add_linear(struct writer *w, const char *layer, int n, int k)
{
    const int64_t shape[2] = { n, k };
    char name[128];

    snprintf(name, sizeof name, "%.100s.weight", layer);
    add(w, name, 2, shape);
    snprintf(name, sizeof name, "%.100s.bias", layer);
    add(w, name, 1, shape);
}

static void add_block(struct writer *w, const struct tiny_size *s, int i)
{
    static const char *const square[] = { "self_attn.q",  "self_attn.k",  "self_attn.v",
                                          "self_attn.o",  "cross_attn.q", "cross_attn.k",
                                          "cross_attn.v", "cross_attn.o" };
    static const char *const vectors[] = { "self_attn.norm_q.weight",
                                           "self_attn.norm_k.weight",
                                           "cross_attn.norm_q.weight",
                                           "cross_attn.norm_k.weight",
                                           "norm3.weight",
                                           "norm3.bias" };
    const int64_t six[3] = { 1, 6, s->dim };
    char name[128];

    for (size_t j = 0; j < sizeof square / sizeof *square; j++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, square[j]);
        add_linear(w, name, s->dim, s->dim);
    }
    for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, vectors[j]);
        add(w, name, 1, six + 2);
    }
    snprintf(name, sizeof name, "blocks.%d.ffn.0", i);
    add_linear(w, name, s->ffn, s->dim);
    snprintf(name, sizeof name, "blocks.%d.ffn.2", i);
    add_linear(w, name, s->dim, s->ffn);
    snprintf(name, sizeof name, "blocks.%d.modulation", i);
    add(w, name, 3, six);
}

static void write_items(struct writer *w, const char *dir, const char *file)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, file);
    ck_assert_msg(kvr_st_write(path, w->items, w->n, NULL) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < w->n; i++) {
        free((void *)w->items[i].name);
        free(w->items[i].t.data);
    }
    w->n = 0;
}

static void write_weights(const char *dir, const struct tiny_size *s, const struct tiny_fault *f)
{
    const int64_t patch[5] = { s->dim, s->channels, 1, s->patch_h, s->patch_w };
    const int64_t two[3] = { 1, 2, s->dim }, odd[1] = { 3 };
    struct writer w = { .fault = f };

    add(&w, "patch_embedding.weight", 5, patch);
    add(&w, "patch_embedding.bias", 1, patch);
    add_linear(&w, "text_embedding.0", s->dim, s->text_dim);
    add_linear(&w, "text_embedding.2", s->dim, s->dim);
    add_linear(&w, "time_embedding.0", s->dim, s->freq);
    add_linear(&w, "time_embedding.2", s->dim, s->dim);
    add_linear(&w, "time_projection.1", 6 * s->dim, s->dim);
    for (int i = 0; i < s->layers; i++)
        add_block(&w, s, i);
    add(&w, "head.modulation", 3, two);
    add_linear(&w, "head.head", s->channels * s->patch_h * s->patch_w, s->dim);
    if (f->extra)
        add(&w, f->extra, 1, odd);
    write_items(&w, dir, f->file ? f->file : "dit.safetensors");
}

static void write_table(const char *dir, const struct tiny_size *s)
{
    const struct tiny_fault none = { 0 };
    const int64_t tokens[2] = { s->words, s->text_dim },
                  positions[2] = { s->text_len, s->text_dim };
    struct writer w = { .fault = &none };

    add(&w, "token_embedding", 2, tokens);
    add(&w, "position_embedding", 2, positions);
    write_items(&w, dir, "prompt_table.safetensors");
}

char *tiny_model_config_text(const struct tiny_size *s)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "{\"dim\": %d, \"ffn_dim\": %d, \"freq_dim\": %d, \"text_dim\": %d, \"text_len\": %d,\n"
            " \"in_dim\": %d, \"out_dim\": %d, \"num_heads\": %d, \"num_layers\": %d,\n"
            " \"patch_size\": [1, %d, %d], \"eps\": 1e-06, \"latent_height\": %d,\n"
            " \"latent_width\": %d, \"frames_per_chunk\": %d, \"timestep_shift\": 5.0,\n"
            " \"denoising_steps\": %s",
            s->dim, s->ffn, s->freq, s->text_dim, s->text_len, s->channels, s->channels, s->heads,
            s->layers, s->patch_h, s->patch_w, s->height, s->width, s->frames,
            s->steps ? s->steps : "[1000, 500]");
    for (int i = 0; i < s->words; i++)
        fprintf(f, "%s\"word%d\"", i ? ", " : ",\n \"vocabulary\": [", i);
    fprintf(f, "%s%s}\n", s->words ? "]" : "", s->keys ? s->keys : "");
    fclose(f);
    return text;
}

void tiny_model_config(const char *dir, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/config.json", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

void tiny_model_make(char dir[64], const struct tiny_size *s, const struct tiny_fault *fault)
{
    const struct tiny_fault none = { 0 };
    char *text = tiny_model_config_text(s);

    strcpy(dir, "/tmp/kvr_model_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    tiny_model_config(dir, text);
    free(text);
    write_weights(dir, s, fault ? fault : &none);
    if (s->words)
        write_table(dir, s);
}

void tiny_model_remove(const char *dir)
{
    static const char *const names[] = { "config.json", "dit.safetensors",
                                         "diffusion_pytorch_model.safetensors",
                                         "prompt_table.safetensors" };
    char path[256];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}
