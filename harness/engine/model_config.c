/* model_config.c - reads config.json. It checks the type and the bounds of every key, and then the
 * consistency of the keys. */
#include "harness/core/join.h"
#include "harness/engine/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/opts.h"
#include "harness/engine/ops.h"

struct reader {
    const json_t *root;
    const char *path;
};

/* Reads entry i of the array under `key` as a number within [lo, hi]. */
static enum kvr_status number_at(const struct reader *r, const char *key, const json_t *array,
                                 int i, double lo, double hi, double *out)
{
    const json_t *v = json_array_get(array, (size_t)i);
    double x;

    if (!json_is_number(v))
        return kvr_fail(KVR_EFORMAT, "%s: %s[%d] is not a number, need %g..%g", r->path, key, i, lo,
                        hi);
    x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return kvr_fail(KVR_EFORMAT, "%s: %s[%d]: %g is not within %g..%g", r->path, key, i, x, lo,
                        hi);
    *out = x;
    return KVR_OK;
}

/* Reads entry i of the array under `key` as an integer within [lo, hi]. */
static enum kvr_status whole_at(const struct reader *r, const char *key, const json_t *array, int i,
                                int lo, int hi, double *out)
{
    KVR_TRY(number_at(r, key, array, i, lo, hi, out));
    if (*out != floor(*out))
        return kvr_fail(KVR_EFORMAT, "%s: %s[%d]: %g is not a whole number", r->path, key, i, *out);
    return KVR_OK;
}

static enum kvr_status real_in(const struct reader *r, const char *key, double lo, double hi,
                               double *out)
{
    double x = 0;

    KVR_TRY(kvr_json_real(r->root, r->path, key, &x));
    if (!(x >= lo && x <= hi))
        return kvr_fail(KVR_EFORMAT, "%s: %s: %g is not within %g..%g", r->path, key, x, lo, hi);
    *out = x;
    return KVR_OK;
}

static enum kvr_status array_of(const struct reader *r, const char *key, size_t lo, size_t hi,
                                json_t **out)
{
    json_t *v = NULL;

    KVR_TRY(kvr_json_array(r->root, r->path, key, &v));
    if (json_array_size(v) < lo || json_array_size(v) > hi)
        return kvr_fail(KVR_EFORMAT, "%s: %s has %zu elements, need %zu..%zu", r->path, key,
                        json_array_size(v), lo, hi);
    *out = v;
    return KVR_OK;
}

static bool has(const struct reader *r, const char *key)
{
    return json_object_get(r->root, key) != NULL;
}

/* Checks a feature that this engine always has: its key may be absent or true, but not false. */
static enum kvr_status must_be_on(const struct reader *r, const char *key)
{
    bool on = true;

    KVR_TRY(kvr_json_bool_opt(r->root, r->path, key, &on));
    if (!on)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: %s is false; only models that set it to true are supported", r->path,
                        key);
    return KVR_OK;
}

/* Reads a key whose value is one of `names`. If the key is absent, `out` is unchanged. */
static enum kvr_status choice(const struct reader *r, const char *key, const char *const *names,
                              int *out)
{
    const char *text = NULL, *near;
    char list[160];

    KVR_TRY(kvr_json_string_opt(r->root, r->path, key, &text));
    if (!text)
        return KVR_OK;
    for (int i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return KVR_OK;
        }
    near = kvr_nearest(text, names);
    return kvr_fail(KVR_EFORMAT,
                    "%s: %s: unknown value \"%.40s\"; did you mean \"%s\"? Allowed: %s", r->path,
                    key, text, near ? near : names[0], kvr_join_all(list, sizeof list, names));
}

static enum kvr_status read_sizes(const struct reader *r, struct kvr_model_config *c)
{
    KVR_TRY(kvr_json_int_in(r->root, r->path, "dim", 2, 1 << 16, &c->dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "ffn_dim", 1, 1 << 18, &c->ffn_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "freq_dim", 2, 1 << 14, &c->freq_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "text_dim", 1, 1 << 16, &c->text_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "text_len", 1, KVR_OPS_MAX_TEXT, &c->text_len));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "in_dim", 1, 1024, &c->in_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "out_dim", 1, 1024, &c->out_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "num_heads", 1, 1024, &c->n_heads));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "num_layers", 1, 1024, &c->n_layers));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "latent_height", 1, 8192, &c->latent_h));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "latent_width", 1, 8192, &c->latent_w));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "frames_per_chunk", 1, 64, &c->frames_per_chunk));
    if (c->dim % c->n_heads || c->dim / c->n_heads % 2)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: dim %d divided by num_heads %d must be an even whole number (head_dim)", r->path,
            c->dim, c->n_heads);
    if (c->freq_dim % 2)
        return kvr_fail(KVR_EFORMAT, "%s: freq_dim %d must be even", r->path, c->freq_dim);
    if (c->in_dim != c->out_dim)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: in_dim %d and out_dim %d must be equal", r->path,
                        c->in_dim, c->out_dim);
    return KVR_OK;
}

static enum kvr_status read_patch(const struct reader *r, struct kvr_model_config *c)
{
    json_t *v;
    double patch[3];

    KVR_TRY(array_of(r, "patch_size", 3, 3, &v));
    for (int i = 0; i < 3; i++)
        KVR_TRY(whole_at(r, "patch_size", v, i, 1, 64, &patch[i]));
    if (patch[0] != 1)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: patch_size[0] is %g latent frames, need 1", r->path,
                        patch[0]);
    c->patch_h = (int)patch[1];
    c->patch_w = (int)patch[2];
    if (c->latent_h % c->patch_h || c->latent_w % c->patch_w)
        return kvr_fail(KVR_EFORMAT,
                        "%s: patch_size %d x %d must divide the latent height and width, %d x %d",
                        r->path, c->patch_h, c->patch_w, c->latent_h, c->latent_w);
    return KVR_OK;
}

/* Reads the key "sampler". If it is absent, the sampler is UniPC in a config with "sampling_steps",
 * the number of UniPC steps. In a config with "denoising_steps", a list of timesteps, it is the
 * re-noising sampler. */
static enum kvr_status read_sampler(const struct reader *r, struct kvr_model_config *c)
{
    int sampler = has(r, "sampling_steps") && !has(r, "denoising_steps") ? KVR_SAMPLER_UNIPC
                                                                         : KVR_SAMPLER_RENOISE;

    KVR_TRY(choice(r, "sampler", kvr_sampler_names + 1, &sampler));
    c->sampler = (enum kvr_sampler)sampler;
    return KVR_OK;
}

static enum kvr_status read_schedule(const struct reader *r, struct kvr_model_config *c)
{
    json_t *v;

    KVR_TRY(real_in(r, "timestep_shift", 1e-3, 1e3, &c->timestep_shift));
    if (has(r, "context_timestep"))
        KVR_TRY(real_in(r, "context_timestep", 0, 1000, &c->context_timestep));
    KVR_TRY(read_sampler(r, c));
    if (c->sampler == KVR_SAMPLER_UNIPC)
        return kvr_json_int_in(r->root, r->path, "sampling_steps", 1, KVR_MAX_STEPS, &c->n_steps);
    KVR_TRY(array_of(r, "denoising_steps", 1, KVR_MAX_STEPS, &v));
    c->n_steps = (int)json_array_size(v);
    for (int i = 0; i < c->n_steps; i++) {
        KVR_TRY(whole_at(r, "denoising_steps", v, i, 1, 1000, &c->steps[i]));
        if (i && c->steps[i] >= c->steps[i - 1])
            return kvr_fail(KVR_EFORMAT, "%s: denoising_steps must decrease, found %g after %g",
                            r->path, c->steps[i], c->steps[i - 1]);
    }
    return KVR_OK;
}

static enum kvr_status read_latents(const struct reader *r, struct kvr_model_config *c)
{
    static const char *const predictions[] = { "flow", "x0", NULL };
    static const char *const spaces[] = { "vae", "rgb", NULL };
    int prediction = KVR_PREDICT_FLOW, space = 0;
    double range[2] = { -1, 1 };
    json_t *v;

    KVR_TRY(choice(r, "prediction", predictions, &prediction));
    KVR_TRY(choice(r, "latent_space", spaces, &space));
    c->prediction = (enum kvr_predicts)prediction;
    c->latent_is_rgb = space == 1;
    if (has(r, "latent_range")) {
        KVR_TRY(array_of(r, "latent_range", 2, 2, &v));
        for (int i = 0; i < 2; i++)
            KVR_TRY(number_at(r, "latent_range", v, i, -1e6, 1e6, &range[i]));
        if (!(range[0] < range[1]))
            return kvr_fail(
                KVR_EFORMAT,
                "%s: latent_range [%g, %g] is empty: the first number must be the smaller one",
                r->path, range[0], range[1]);
    }
    c->latent_lo = (float)range[0];
    c->latent_hi = (float)range[1];
    if (c->latent_is_rgb && c->in_dim != 3)
        return kvr_fail(KVR_EFORMAT, "%s: latent_space is \"rgb\" but in_dim is %d, not 3", r->path,
                        c->in_dim);
    KVR_TRY(kvr_json_int_in_opt(r->root, r->path, "window_frames", 0, 1024, &c->window_frames));
    if (c->window_frames && c->window_frames < c->frames_per_chunk)
        return kvr_fail(KVR_EFORMAT, "%s: window_frames %d is smaller than one chunk of %d frames",
                        r->path, c->window_frames, c->frames_per_chunk);
    KVR_TRY(kvr_json_int_in_opt(r->root, r->path, "sink_frames", 0, 1024, &c->sink_frames));
    if (c->window_frames && c->sink_frames > c->window_frames - c->frames_per_chunk)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: sink_frames is %d, but a window of %d frames and a chunk of %d frames leave "
            "room for at most %d sink frames",
            r->path, c->sink_frames, c->window_frames, c->frames_per_chunk,
            c->window_frames - c->frames_per_chunk);
    if (has(r, "multi_shot_rope_offset"))
        KVR_TRY(real_in(r, "multi_shot_rope_offset", 0, 1024, &c->shot_offset));
    return KVR_OK;
}

static enum kvr_status read_vocabulary(const struct reader *r, struct kvr_model_config *c)
{
    json_t *v;
    size_t n;

    if (!has(r, "vocabulary"))
        return KVR_OK;
    KVR_TRY(array_of(r, "vocabulary", 1, 1 << 16, &v));
    n = json_array_size(v);
    c->vocabulary = calloc(n, sizeof *c->vocabulary);
    if (!c->vocabulary)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating a vocabulary of %zu words",
                        r->path, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(v, i);

        if (!json_is_string(word))
            return kvr_fail(KVR_EFORMAT, "%s: vocabulary[%zu] is not a string", r->path, i);
        c->vocabulary[i] = strdup(json_string_value(word));
        if (!c->vocabulary[i])
            return kvr_fail(KVR_ENOMEM,
                            "%s: out of memory while allocating a vocabulary of %zu words", r->path,
                            n);
        c->n_vocabulary = (int)i + 1;
    }
    return KVR_OK;
}

/* Reads the key "weights": {"random": {"seed": n}}. If the key is absent, the weights are in
 * files. */
static enum kvr_status read_weights(const struct reader *r, struct kvr_model_config *c)
{
    json_t *weights, *random;
    int64_t seed;

    if (!has(r, "weights"))
        return KVR_OK;
    KVR_TRY(kvr_json_object(r->root, r->path, "weights", &weights));
    KVR_TRY(kvr_json_object(weights, r->path, "random", &random));
    KVR_TRY(kvr_json_int(random, r->path, "seed", &seed));
    if (seed < 0 || json_object_size(weights) != 1 || json_object_size(random) != 1)
        return kvr_fail(KVR_EFORMAT,
                        "%s: weights: need {\"random\": {\"seed\": N}} with N of at least 0",
                        r->path);
    if (c->n_vocabulary)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: a model with random weights gets random prompt embeddings; remove key vocabulary, "
            "or remove key weights and add files of trained weights",
            r->path);
    c->random_weights = true;
    c->weights_seed = (uint64_t)seed;
    return KVR_OK;
}

static enum kvr_status keep_text(const char *text, char **out)
{
    *out = strdup(text);
    return *out ? KVR_OK : kvr_fail(KVR_ENOMEM, "model: out of memory");
}

/* Reads the key "weights": {"gguf": FILE, "fetch": COMMAND}, where COMMAND downloads FILE. */
static enum kvr_status read_lm_file(const struct reader *r, struct kvr_model_config *c)
{
    const char *file, *fetch = NULL;
    json_t *weights;

    KVR_TRY(kvr_json_object(r->root, r->path, "weights", &weights));
    KVR_TRY(kvr_json_string(weights, r->path, "gguf", &file));
    KVR_TRY(kvr_json_string_opt(weights, r->path, "fetch", &fetch));
    if (strchr(file, '/') || !file[0])
        return kvr_fail(KVR_EFORMAT,
                        "%s: weights.gguf is '%s', need the name of a file in this folder", r->path,
                        file);
    KVR_TRY(keep_text(file, &c->gguf));
    return fetch ? keep_text(fetch, &c->fetch) : KVR_OK;
}

/* Reads the key "lora": {"file": FILE, "rank": r, "alpha": a}, an adapter that is merged into the
 * weights on loading. Without "file", rank and alpha apply to an adapter that the user selects. */
static enum kvr_status read_lora(const struct reader *r, struct kvr_model_config *c)
{
    const char *file = NULL;
    char where[1024];
    json_t *lora;

    if (!has(r, "lora"))
        return KVR_OK;
    KVR_TRY(kvr_json_object(r->root, r->path, "lora", &lora));
    snprintf(where, sizeof where, "%s: lora", r->path);
    KVR_TRY(kvr_json_int_in(lora, where, "rank", 1, 1 << 14, &c->lora.rank));
    c->lora.alpha = c->lora.rank;
    if (json_object_get(lora, "alpha"))
        KVR_TRY(real_in(&(struct reader){ lora, where }, "alpha", 1e-6, 1e6, &c->lora.alpha));
    KVR_TRY(kvr_json_string_opt(lora, where, "file", &file));
    if (!file)
        return KVR_OK;
    if (strchr(file, '/') || !file[0])
        return kvr_fail(KVR_EFORMAT,
                        "%s: lora.file is '%s', need the name of a file in this folder", r->path,
                        file);
    if (c->random_weights)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: lora.file: a LoRA adapter needs trained weights, but this model's "
                        "weights are random",
                        r->path);
    return keep_text(file, &c->lora.file);
}

/* Reads the config of a language model. Its chunk is one token: one latent frame of 1 x 1, with one
 * denoising step. */
static enum kvr_status read_lm(const struct reader *r, struct kvr_model_config *c)
{
    c->is_lm = true;
    c->latent_h = c->latent_w = c->patch_h = c->patch_w = 1;
    c->in_dim = c->out_dim = c->frames_per_chunk = c->n_steps = 1;
    KVR_TRY(kvr_json_int_in(r->root, r->path, "dim", 2, 1 << 16, &c->dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "ffn_dim", 1, 1 << 18, &c->ffn_dim));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "num_heads", 1, 1024, &c->n_heads));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "num_kv_heads", 1, 1024, &c->n_kv_heads));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "num_layers", 1, 1024, &c->n_layers));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "vocabulary_size", 2, 1 << 20, &c->vocabulary_size));
    KVR_TRY(kvr_json_int_in(r->root, r->path, "context_length", 1, 1 << 20, &c->context_length));
    KVR_TRY(real_in(r, "rope_base", 1, 1e9, &c->rope_base));
    KVR_TRY(real_in(r, "eps", 0, 1, &c->eps));
    if (c->dim % c->n_heads || c->dim / c->n_heads % 2 || c->n_heads % c->n_kv_heads)
        return kvr_fail(KVR_EFORMAT,
                        "%s: dim %d divided by num_heads %d must be an even whole number, and "
                        "num_kv_heads %d must divide num_heads",
                        r->path, c->dim, c->n_heads, c->n_kv_heads);
    return read_lm_file(r, c);
}

static enum kvr_status read_all(const struct reader *r, struct kvr_model_config *c)
{
    static const char *const types[] = { "t2v", "t2v-causal", "ti2v", "llama", NULL };
    int type = 0;

    KVR_TRY(choice(r, "model_type", types, &type));
    if (type == 3)
        return read_lm(r, c);
    KVR_TRY(must_be_on(r, "qk_norm"));
    KVR_TRY(must_be_on(r, "cross_attn_norm"));
    KVR_TRY(read_sizes(r, c));
    KVR_TRY(read_patch(r, c));
    KVR_TRY(real_in(r, "eps", 0, 1, &c->eps));
    KVR_TRY(read_schedule(r, c));
    KVR_TRY(read_latents(r, c));
    KVR_TRY(read_vocabulary(r, c));
    KVR_TRY(read_weights(r, c));
    return read_lora(r, c);
}

/* Sets the missing keys in the config of Wan2.2-TI2V-5B to their values in LongLive 2.0 at 704x1280
 * pixels. */
static enum kvr_status fill_ti2v(json_t *root, const char *path)
{
    if (json_object_update_missing_new(
            root,
            json_pack("{s:i, s:i, s:i, s:i, s:f, s:i, s:[i,i,i], s:i, s:i, s:f}", "text_dim", 4096,
                      "latent_height", 44, "latent_width", 80, "frames_per_chunk", 8,
                      "timestep_shift", 5.0, "sampling_steps", 4, "patch_size", 1, 2, 2,
                      "window_frames", 32, "sink_frames", 8, "multi_shot_rope_offset", 8.0)) != 0)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    return KVR_OK;
}

enum kvr_status kvr_model_config_fill(json_t *root, const char *path)
{
    const char *class_name = "", *type = "";

    KVR_TRY(kvr_json_string_opt(root, path, "_class_name", &class_name));
    KVR_TRY(kvr_json_string_opt(root, path, "model_type", &type));
    if (strcmp(class_name, "WanModel") != 0)
        return KVR_OK;
    if (strcmp(type, "ti2v") == 0)
        return fill_ti2v(root, path);
    if (json_object_update_missing_new(
            root, json_pack("{s:i, s:i, s:i, s:i, s:f, s:[i,i,i,i], s:[i,i,i], s:i}", "text_dim",
                            4096, "latent_height", 60, "latent_width", 104, "frames_per_chunk", 3,
                            "timestep_shift", 5.0, "denoising_steps", 1000, 750, 500, 250,
                            "patch_size", 1, 2, 2, "window_frames", 21)) != 0)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    return KVR_OK;
}

enum kvr_status kvr_model_config_read(struct kvr_model_config *c, const char *path)
{
    struct reader r = { .path = path };
    json_t *root = NULL;
    enum kvr_status st;

    memset(c, 0, sizeof *c);
    KVR_TRY(kvr_json_load(&root, path));
    r.root = root;
    st = json_is_object(root)
             ? kvr_model_config_fill(root, path)
             : kvr_fail(KVR_EFORMAT, "%s: the file does not contain a JSON object", path);
    if (st == KVR_OK)
        st = read_all(&r, c);
    json_decref(root);
    if (st != KVR_OK)
        kvr_model_config_free(c);
    return st;
}

void kvr_model_config_free(struct kvr_model_config *c)
{
    for (int i = 0; i < c->n_vocabulary; i++)
        free(c->vocabulary[i]);
    free(c->vocabulary);
    free(c->gguf);
    free(c->fetch);
    free(c->lora.file);
    memset(c, 0, sizeof *c);
}
