/* geometry.c - reads the sizes of a model from config.json and counts its parameters. */
#include "harness/plan/geometry.h"

#include <stdio.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/opts.h"
#include "harness/core/path.h"
#include "harness/engine/gemm.h"
#include "harness/engine/model.h"
#include "harness/plan/find.h"

/* Fields of config.json that determine the model's memory. */
struct sizes {
    int dim, heads, layers, h, w, ph, pw, frames_per_chunk;
    int ffn, freq, text_dim, text_len, in; /* 0: absent */
    int vocabulary;
    int window;
};

/* Returns the number of parameters of the causal Wan DiT: linear layers with biases, gains of the
 * RMS norms of q and k, gain and bias of the norm before cross-attention, and modulation vectors. A
 * model with its own vocabulary instead of a text encoder also has tables of word and position
 * embeddings. */
static int64_t count_params(const struct sizes *s)
{
    const int64_t d = s->dim, f = s->ffn, square = d * d + d;
    const int64_t patch = (int64_t)s->in * s->ph * s->pw;
    const int64_t block = 8 * square + 6 * d + (d * f + f) + (f * d + d) + 6 * d;
    const int64_t embed =
        (patch * d + d) + (s->text_dim * d + d) + square + (s->freq * d + d) + square + 6 * square;
    const int64_t head = (d * patch + patch) + 2 * d;
    const int64_t words = s->vocabulary ? (int64_t)(s->vocabulary + s->text_len) * s->text_dim : 0;

    if (!s->ffn || !s->freq || !s->text_dim || !s->text_len || !s->in)
        return 0;
    return s->layers * block + embed + head + words;
}

static enum kvr_status read_patch(const json_t *root, const char *path, struct sizes *s)
{
    int *const to[] = { &s->ph, &s->pw };
    json_t *patch;

    KVR_TRY(kvr_json_array(root, path, "patch_size", &patch));
    if (json_array_size(patch) != 3)
        return kvr_fail(KVR_EFORMAT, "%s: patch_size has %zu entries, need 3", path,
                        json_array_size(patch));
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_array_get(patch, i);
        const json_int_t n = json_integer_value(v);

        if (!json_is_integer(v))
            return kvr_fail(KVR_EFORMAT, "%s: patch_size[%zu] is not an integer", path, i);
        if (n < 1 || n > 64 || (i == 0 && n != 1))
            return kvr_fail(KVR_EFORMAT,
                            "%s: patch_size[%zu] is %lld, need [1, height, width] with height and "
                            "width of 1..64",
                            path, i, (long long)n);
        if (i)
            *to[i - 1] = (int)n;
    }
    return KVR_OK;
}

static enum kvr_status read_sizes(const json_t *root, const char *path, struct sizes *s)
{
    json_t *words = NULL;

    KVR_TRY(kvr_json_int_in(root, path, "dim", 2, 1 << 16, &s->dim));
    KVR_TRY(kvr_json_int_in(root, path, "num_heads", 1, 1024, &s->heads));
    KVR_TRY(kvr_json_int_in(root, path, "num_layers", 1, 1024, &s->layers));
    KVR_TRY(kvr_json_int_in(root, path, "latent_height", 1, 8192, &s->h));
    KVR_TRY(kvr_json_int_in(root, path, "latent_width", 1, 8192, &s->w));
    KVR_TRY(kvr_json_int_in(root, path, "frames_per_chunk", 1, 64, &s->frames_per_chunk));
    KVR_TRY(read_patch(root, path, s));
    KVR_TRY(kvr_json_int_in_opt(root, path, "ffn_dim", 1, 1 << 18, &s->ffn));
    KVR_TRY(kvr_json_int_in_opt(root, path, "freq_dim", 2, 1 << 14, &s->freq));
    KVR_TRY(kvr_json_int_in_opt(root, path, "text_dim", 1, 1 << 16, &s->text_dim));
    KVR_TRY(kvr_json_int_in_opt(root, path, "text_len", 1, 1 << 16, &s->text_len));
    KVR_TRY(kvr_json_int_in_opt(root, path, "in_dim", 1, 1024, &s->in));
    KVR_TRY(kvr_json_int_in_opt(root, path, "window_frames", 0, 1024, &s->window));
    KVR_TRY(kvr_json_array_opt(root, path, "vocabulary", &words));
    s->vocabulary = (int)json_array_size(words);
    if (s->dim % s->heads)
        return kvr_fail(KVR_EFORMAT, "%s: num_heads %d does not divide dim %d", path, s->heads,
                        s->dim);
    if (s->h % s->ph || s->w % s->pw)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: patch_size %d x %d does not divide the latent frame of %d x %d (height x width)",
            path, s->ph, s->pw, s->h, s->w);
    return KVR_OK;
}

static enum kvr_status from_json(const json_t *root, const char *name, const char *path,
                                 int n_layers, struct kvr_geometry *out)
{
    struct sizes s = { 0 };
    const char *space = "vae", *type = "";

    if (!json_is_object(root))
        return kvr_fail(KVR_EFORMAT,
                        "%s: the file must contain a JSON object (the model's configuration), but "
                        "contains another JSON value",
                        path);
    KVR_TRY(kvr_json_string_opt(root, path, "model_type", &type));
    if (strcmp(type, "llama") == 0)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "%s: is a language model (model_type llama), but a geometry needs a video model", path);
    KVR_TRY(read_sizes(root, path, &s));
    KVR_TRY(kvr_json_string_opt(root, path, "latent_space", &space));
    if (n_layers < 0 || n_layers > s.layers)
        return kvr_fail(KVR_EINVAL,
                        "%s: the first %d layers were requested, need 1..%d (layers of the model)",
                        path, n_layers, s.layers);
    s.layers = n_layers ? n_layers : s.layers;
    *out = (struct kvr_geometry){
        .n_layers = s.layers,
        .n_heads = s.heads,
        .head_dim = s.dim / s.heads,
        .tokens_per_frame = (s.h / s.ph) * (s.w / s.pw),
        .frames_per_chunk = s.frames_per_chunk,
        .pixel_frames = strcmp(space, "rgb") == 0 ? 1 : 4,
        .window_frames = s.window,
        .n_params = count_params(&s),
        .weight_bytes = 4, /* the CPU engine holds weights in F32 */
    };
    snprintf(out->name, sizeof out->name, "%s", name);
    return KVR_OK;
}

enum kvr_status kvr_geometry_find(const char *name, struct kvr_geometry *out)
{
    return kvr_geometry_find_part(name, 0, out);
}

enum kvr_status kvr_geometry_find_part(const char *name, int n_layers, struct kvr_geometry *out)
{
    const struct kvr_geometry *const built_in[] = { &kvr_wan_1_3b, &kvr_wan_14b, &kvr_wan_5b };
    const char *const names[] = { "wan-1.3b", "wan-14b", "wan-5b", NULL };
    char path[1024], file[1100];
    json_t *root = NULL;
    enum kvr_status st;

    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (!strcmp(name, built_in[i]->name)) {
            if (n_layers && n_layers != built_in[i]->n_layers)
                return kvr_fail(KVR_EINVAL,
                                "geometry %s: %d layers requested, but its number of layers is "
                                "fixed; give model %s-random instead, which has the same sizes",
                                name, n_layers, name);
            *out = *built_in[i];
            return KVR_OK;
        }
    if (kvr_path_exists(name) && !kvr_path_is_dir(name)) {
        snprintf(file, sizeof file, "%s", name);
    } else {
        const char *near = kvr_nearest(name, names);

        st = kvr_find_path(&kvr_find_model, name, NULL, path, sizeof path);
        if (st == KVR_ENOTFOUND && near)
            return kvr_fail(st, "unknown geometry '%s'; did you mean '%s'?", name, near);
        if (st != KVR_OK)
            return kvr_fail_prefix(st,
                                   "geometry '%s': need wan-1.3b, wan-14b, wan-5b, a model's name "
                                   "or folder, or the path of a config.json",
                                   name);
        snprintf(file, sizeof file, "%s/config.json", path);
    }
    KVR_TRY(kvr_json_load(&root, file));
    st = json_is_object(root) ? kvr_model_config_fill(root, file) : KVR_OK;
    if (st == KVR_OK)
        st = from_json(root, name, file, n_layers, out);
    json_decref(root);
    return st;
}

void kvr_geometry_compute(struct kvr_geometry *g, enum kvr_backend backend, enum kvr_dtype compute)
{
    if (compute == KVR_BF16 && kvr_gemm_holds_bf16(backend))
        g->weight_bytes = sizeof(kvr_bf16);
}

static void of_trace(const struct kvr_trace_info *i, int n_layers, struct kvr_geometry *out)
{
    *out = (struct kvr_geometry){ .n_layers = n_layers ? n_layers : i->layout.n_layers,
                                  .n_heads = i->layout.n_kv_heads,
                                  .head_dim = i->layout.head_dim,
                                  .tokens_per_frame = i->layout.tokens_per_frame,
                                  .frames_per_chunk = i->layout.frames_per_chunk,
                                  .pixel_frames = 1 };
    snprintf(out->name, sizeof out->name, "%s", i->model);
}

enum kvr_status kvr_geometry_of(const struct kvr_config_model *m, int n_layers,
                                struct kvr_geometry *out)
{
    if (!m->trace)
        return kvr_geometry_find_part(m->dir, n_layers, out);
    of_trace(kvr_trace_info(m->trace), n_layers, out);
    return KVR_OK;
}
