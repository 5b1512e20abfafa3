/* resources.c - computes the sizes of the files of Wan's transformer, text encoder and decoder. */
#include "harness/plan/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/cache/predict.h"
#include "harness/engine/dit.h"
#include "harness/plan/flops.h"
#include "harness/plan/find.h"
#include "harness/engine/text/umt5.h"
#include "harness/engine/gemm.h"
#include "harness/engine/vae/decoder.h"

enum { BATCH_TOKENS = 2048, THREADS = 16, MAX_SIDE = 8192 };

/* Dimensions of the text encoder UMT5-XXL, whose weights are BF16. */
static const struct kvr_umt5_sizes xxl = { 256384, 4096, 4096, 10240, 64, 24, 32 };
#define XXL_PARAMETERS 5680910336u
/* Size of the published tokenizer file in bytes. */
#define TOKENIZER_BYTES 4548313u

static const struct kvr_model_config wan = { .freq_dim = 256,
                                             .text_dim = 4096,
                                             .text_len = 512,
                                             .in_dim = 16,
                                             .out_dim = 16,
                                             .patch_h = 2,
                                             .patch_w = 2,
                                             .eps = 1e-6,
                                             .latent_h = 60,
                                             .latent_w = 104,
                                             .frames_per_chunk = 3,
                                             .timestep_shift = 5,
                                             .n_steps = 4,
                                             .steps = { 1000, 750, 500, 250 },
                                             .latent_lo = -1,
                                             .latent_hi = 1,
                                             .window_frames = 21 };

static const struct kvr_model_config wan_2_2 = { .freq_dim = 256,
                                                 .text_dim = 4096,
                                                 .text_len = 512,
                                                 .in_dim = 48,
                                                 .out_dim = 48,
                                                 .patch_h = 2,
                                                 .patch_w = 2,
                                                 .eps = 1e-6,
                                                 .latent_h = 44,
                                                 .latent_w = 80,
                                                 .frames_per_chunk = 8,
                                                 .sampler = KVR_SAMPLER_UNIPC,
                                                 .timestep_shift = 5,
                                                 .n_steps = 4,
                                                 .latent_lo = -1,
                                                 .latent_hi = 1,
                                                 .window_frames = 32,
                                                 .sink_frames = 8,
                                                 .shot_offset = 8 };

static const struct {
    const struct kvr_geometry *geometry;
    const struct kvr_model_config *config;
    int ffn;
} built_in[] = { { &kvr_wan_1_3b, &wan, 8960 },
                 { &kvr_wan_14b, &wan, 13824 },
                 { &kvr_wan_5b, &wan_2_2, 14336 } };

static enum kvr_status read_config(const char *name, struct kvr_model_config *c)
{
    char path[1024], file[1100];

    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        const struct kvr_geometry *g = built_in[i].geometry;

        if (strcmp(name, g->name) == 0) {
            *c = *built_in[i].config;
            c->dim = g->n_heads * g->head_dim;
            c->ffn_dim = built_in[i].ffn;
            c->n_heads = g->n_heads;
            c->n_layers = g->n_layers;
            return KVR_OK;
        }
    }
    if (kvr_path_exists(name) && !kvr_path_is_dir(name))
        return kvr_model_config_read(c, name);
    KVR_TRY(kvr_find_path(&kvr_find_model, name, NULL, path, sizeof path));
    snprintf(file, sizeof file, "%s/config.json", path);
    return kvr_model_config_read(c, file);
}

/* Returns the decoder's spatial factor, the ratio of the height (and width) in pixels to that of
 * the latent frame. */
static int scale_of(const struct kvr_model_config *c)
{
    return c->latent_is_rgb ? 1 : kvr_decoder_scale_of(c->in_dim);
}

enum kvr_status kvr_resources_config(const char *name, int height, int width,
                                     struct kvr_model_config *c)
{
    int sy, sx;

    KVR_TRY(read_config(name, c));
    sy = scale_of(c) * c->patch_h;
    sx = scale_of(c) * c->patch_w;
    if (height == 0)
        return KVR_OK;
    if (c->is_lm) {
        kvr_model_config_free(c);
        return kvr_fail(KVR_EINVAL, "size %dx%d: model %s is a language model without frames",
                        height, width, name);
    }
    if (height % sy || width % sx) {
        kvr_model_config_free(c);
        return kvr_fail(KVR_EINVAL,
                        "size %dx%d (height x width): model %s needs a height divisible by %d and "
                        "a width divisible by %d",
                        height, width, name, sy, sx);
    }
    c->latent_h = height / scale_of(c);
    c->latent_w = width / scale_of(c);
    return KVR_OK;
}

enum kvr_status kvr_resources_size(const char *text, int *height, int *width)
{
    int end = 0;

    if (sscanf(text, "%4dx%4d%n", height, width, &end) == 2 && text[end] == 0 && *height >= 1 &&
        *width >= 1 && *height <= MAX_SIDE && *width <= MAX_SIDE)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL, "size '%s': need HEIGHTxWIDTH, each 1..%d pixels, as in 480x832",
                    text, MAX_SIDE);
}

void kvr_resources_resize(struct kvr_geometry *g, const struct kvr_model_config *c)
{
    g->tokens_per_frame = c->latent_h / c->patch_h * (c->latent_w / c->patch_w);
}

static void need_text(const struct kvr_model_config *c, struct kvr_resources *n)
{
    const double layer = 4.0 * xxl.dim * xxl.attention + 3.0 * xxl.dim * xxl.ffn;
    const double t = c->text_len;

    if (c->n_vocabulary || c->text_dim != xxl.dim)
        return;
    n->text_file = (size_t)XXL_PARAMETERS * 2;
    n->text_bytes = kvr_umt5_bytes(&xxl, BATCH_TOKENS, c->text_len, THREADS);
    n->text_flop = 2 * xxl.n_layers * (layer * t + 2 * t * t * xxl.attention);
}

static void need_decoder(const struct kvr_model_config *c, int latent_frames,
                         enum kvr_decoder_kind decoder, enum kvr_dtype type,
                         struct kvr_resources *n)
{
    struct kvr_vae_cost v;

    if (c->latent_is_rgb ||
        !kvr_decoder_cost(decoder, c->in_dim, c->latent_h, c->latent_w, type, &v))
        return;
    n->decoder_weights = v.weights;
    n->decoder_states = v.states;
    n->decoder_frames = v.frames;
    n->decoder_flop = v.flop_first + v.flop_next * (latent_frames - 1);
}

void kvr_resources_files_of(const struct kvr_model_config *c, enum kvr_decoder_kind decoder,
                            struct kvr_resources_files *out)
{
    const bool umt5 = !c->n_vocabulary && !c->is_lm && c->text_dim == xxl.dim;
    struct kvr_vae_cost cost;
    const bool vae = !c->latent_is_rgb && !c->is_lm &&
                     kvr_decoder_cost(decoder, c->in_dim, c->latent_h, c->latent_w, KVR_F32, &cost);

    *out = (struct kvr_resources_files){ .encoder = umt5 ? (int64_t)XXL_PARAMETERS * 2 : 0,
                                         .tokenizer = umt5 ? TOKENIZER_BYTES : 0,
                                         .decoder =
                                             vae ? kvr_decoder_file_bytes(decoder, c->in_dim) : 0 };
}

void kvr_resources_of(const struct kvr_model_config *c, const struct kvr_prediction *p, int window,
                      enum kvr_decoder_kind decoder, enum kvr_dtype decoder_compute,
                      struct kvr_resources *out)
{
    memset(out, 0, sizeof *out);
    if (c->is_lm)
        return;
    need_text(c, out);
    need_decoder(c, p->latent_frames, decoder, decoder_compute, out);
    out->activations = kvr_dit_bytes(c);
    out->peak = p->peak + out->activations;
    out->network_flop = kvr_rollout_flop(c, p->latent_frames, window);
    out->frames = c->latent_is_rgb ? p->latent_frames : kvr_vae_frames(p->latent_frames);
    out->height = c->latent_h * scale_of(c);
    out->width = c->latent_w * scale_of(c);
    out->frames_file = (size_t)out->frames * (size_t)out->height * (size_t)out->width * 3;
}

enum kvr_status kvr_resources_decoder(const char *decoder, const char *decoder_compute,
                                      enum kvr_decoder_kind *kind, enum kvr_dtype *type)
{
    KVR_TRY(kvr_decoder_parse(decoder, kind));
    KVR_TRY(kvr_compute_parse(decoder_compute, type));
    if (*kind == KVR_DECODER_TAEHV && *type != KVR_F32)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "decoder taehv supports only decoder_compute f32, not %s; use f32, or decoder vae",
            kvr_compute_word(*type));
    return KVR_OK;
}
