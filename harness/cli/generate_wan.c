/* generate_wan.c - see generate_wan.h. */
#include "harness/cli/generate_wan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/engine/text/embed.h"
#include "harness/workload/image.h"
#include "harness/workload/shots.h"

enum { MAX_PATH = 1024, MAX_NAME = 256 };

static enum kvr_status check_image(const struct kvr_model_config *c, const char *path)
{
    struct kvr_image image;
    enum kvr_status st;

    KVR_TRY(kvr_image_open(&image, path));
    st = kvr_image_check(image.video.frames.height, image.video.frames.width, path, c);
    kvr_image_close(&image);
    return st;
}

enum kvr_status kvr_wan_check(const struct kvr_model_config *c, const char *dir, const char *image)
{
    struct kvr_model_paths p;
    enum kvr_status st = KVR_OK;

    if (image)
        KVR_TRY(check_image(c, image));
    if (c->latent_is_rgb)
        return KVR_OK;
    KVR_TRY(kvr_model_paths(dir, c, KVR_DECODER_VAE, &p));
    if (!p.vae || !kvr_path_exists(p.vae))
        st = kvr_fail(
            KVR_EUNSUPPORTED,
            "generate: model %s: the latents are not RGB frames and need a decoder, but the "
            "decoder's file is missing: %s; `kvreel run` measures time and memory without a "
            "decoder",
            dir, p.vae ? p.vae : "the model's folder has none");
    kvr_model_paths_free(&p);
    return st;
}

/* --- embeddings --------------------------------------------------------------------------- */

static void name_of(char out[MAX_NAME], const char *name, int shot, int n)
{
    if (n == 1)
        snprintf(out, MAX_NAME, "%s", name);
    else
        snprintf(out, MAX_NAME, "%s.%d", name, shot + 1);
}

/* Writes out/prompt.safetensors. */
static enum kvr_status encode(const struct kvr_wan_source *from, const struct kvr_shot_line *s,
                              const char *dir, const struct kvr_model_config *c, char **pack)
{
    struct kvr_embed_prompt prompt[KVR_MAX_SHOTS];
    char ids[KVR_MAX_SHOTS][MAX_NAME], *encoder = NULL, *tokenizer = NULL;
    struct kvr_embed_report report;
    struct kvr_embed_job job = {
        .device = from->device, .max_tokens = c->text_len, .n = s->n, .prompt = prompt
    };
    enum kvr_status st = kvr_embed_find(dir, &encoder, &tokenizer);

    if (st == KVR_OK && (!encoder || !tokenizer))
        st = kvr_fail(KVR_ENOTFOUND,
                      "generate: %s: the folder has no %s; give the prompt's embedding with "
                      "--embedding FILE (`kvreel embed` writes it)",
                      dir, encoder ? "tokenizer (spiece.model)" : "text encoder (models_t5*.pth)");
    for (int i = 0; i < s->n; i++) {
        name_of(ids[i], "prompt", i, s->n);
        prompt[i] = (struct kvr_embed_prompt){ ids[i], s->shot[i].text };
    }
    job.encoder = encoder;
    job.tokenizer = tokenizer;
    if (st == KVR_OK)
        st = kvr_mkdirs(from->out);
    if (st == KVR_OK) {
        *pack = kvr_path_join(from->out, "prompt.safetensors");
        st = *pack ? kvr_embed(&job, *pack, &report)
                   : kvr_fail(KVR_ENOMEM, "generate: out of memory");
    }
    free(encoder);
    free(tokenizer);
    return st;
}

static enum kvr_status read_pack(struct kvr_wan_input *in, const struct kvr_model_config *c,
                                 const char *pack, const char *name)
{
    const size_t n_each = (size_t)c->text_len * (size_t)c->text_dim;

    in->embedding = malloc((size_t)in->n_embeddings * n_each * sizeof *in->embedding);
    if (!in->embedding)
        return kvr_fail(KVR_ENOMEM, "generate: out of memory while allocating the prompt");
    for (int i = 0; i < in->n_embeddings; i++) {
        struct kvr_embedding e;
        char tensor[MAX_NAME];
        enum kvr_status st;

        name_of(tensor, name, i, in->n_embeddings);
        KVR_TRY(kvr_embedding_open(&e, pack, tensor));
        st = kvr_embedding_fill(&e, c->text_len, c->text_dim, in->embedding + (size_t)i * n_each);
        kvr_embedding_close(&e);
        KVR_TRY(st);
    }
    return KVR_OK;
}

static enum kvr_status open_text(struct kvr_wan_input *in, const struct kvr_wan_source *from,
                                 const struct kvr_model_config *c, const char *dir)
{
    struct kvr_shot_line shots;
    char *pack = NULL;
    enum kvr_status st;

    KVR_TRY(kvr_shot_line_parse(from->prompt, from->n_chunks, &shots));
    in->n_embeddings = shots.n;
    if (from->embedding) {
        st = read_pack(in, c, from->embedding, from->name);
    } else {
        st = encode(from, &shots, dir, c, &pack);
        if (st == KVR_OK)
            st = read_pack(in, c, pack, "prompt");
    }
    kvr_shot_line_free(&shots);
    free(pack);
    return st;
}

/* --- first frame -------------------------------------------------------------------------- */

static enum kvr_status open_first(struct kvr_wan_input *in, const char *path,
                                  const struct kvr_dev *dev, const struct kvr_model *model,
                                  const char *dir)
{
    const struct kvr_model_config *c = kvr_model_config(model);
    struct kvr_image image;
    enum kvr_status st;

    KVR_TRY(kvr_image_open(&image, path));
    st = kvr_image_check(image.video.frames.height, image.video.frames.width, path, c);
    in->first = malloc((size_t)kvr_model_frame_elems(model) * sizeof *in->first);
    if (st == KVR_OK && !in->first)
        st = kvr_fail(KVR_ENOMEM, "generate: out of memory while allocating the first frame");
    if (st == KVR_OK)
        st = kvr_image_latent(&image, kvr_dev_backend(dev), dir, c, in->first);
    kvr_image_close(&image);
    return st;
}

enum kvr_status kvr_wan_input_open(struct kvr_wan_input *in, const struct kvr_wan_source *from,
                                   const struct kvr_dev *dev, const struct kvr_model *model,
                                   const char *dir)
{
    enum kvr_status st;

    memset(in, 0, sizeof *in);
    st = open_text(in, from, kvr_model_config(model), dir);
    if (st == KVR_OK && from->image)
        st = open_first(in, from->image, dev, model, dir);
    if (st != KVR_OK)
        kvr_wan_input_close(in);
    return st;
}

void kvr_wan_input_close(struct kvr_wan_input *in)
{
    free(in->embedding);
    free(in->first);
    memset(in, 0, sizeof *in);
}
