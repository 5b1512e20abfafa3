/* files.c - see files.h. */
#include "harness/plan/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/path.h"
#include "harness/plan/geometry.h"
#include "harness/plan/resources.h"
#include "harness/engine/text/embed.h"

struct lister {
    kvr_plan_file_fn *fn;
    void *ctx;
};

static void emit_file(const struct lister *l, const char *what, const char *path, int64_t about,
                      const char *without)
{
    struct kvr_plan_file f = { what, path, about, false, without };
    struct stat s;

    if (stat(path, &s) == 0) {
        f.there = true;
        f.bytes = (int64_t)s.st_size;
    }
    l->fn(l->ctx, &f);
}

/* Reports a file to the callback: its path `found` or, if that is NULL, the expected path of the
 * missing file. */
static enum kvr_status report_file(const struct lister *l, const char *what, const char *found,
                                   const char *dir, const char *name, int64_t about,
                                   const char *without)
{
    char *path = found ? NULL : kvr_path_join(dir, name);

    if (!found && !path)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    emit_file(l, what, found ? found : path, about, without);
    free(path);
    return KVR_OK;
}

bool kvr_plan_encodes(const struct kvr_config *c, const struct kvr_model_config *model)
{
    if (model->n_vocabulary || model->is_lm || model->random_weights)
        return false;
    for (int i = 0; i < c->n_suites; i++)
        for (int k = 0; k < c->suite[i].n_prompts; k++)
            if (!c->suite[i].prompt[k].embedding)
                return true;
    return false;
}

static enum kvr_status encoder_files(const struct lister *l, const char *dir,
                                     const struct kvr_model_config *c)
{
    static const char without[] = "only prompts whose suite gives a file of embeddings can run";
    struct kvr_resources_files n;
    char *encoder, *tokenizer;
    enum kvr_status st = kvr_embed_find(dir, &encoder, &tokenizer);

    kvr_resources_files_of(c, KVR_DECODER_VAE, &n);
    if (st == KVR_OK)
        st = report_file(l, "text encoder", encoder, dir, "models_t5_umt5-xxl-enc-bf16.pth",
                         n.encoder, without);
    if (st == KVR_OK)
        st = report_file(l, "tokenizer", tokenizer, dir, "google/umt5-xxl/spiece.model",
                         n.tokenizer, without);
    free(encoder);
    free(tokenizer);
    return st;
}

/* Reports the files of one model to the callback. `all` is the sweep or NULL. The text encoder is
 * reported if a prompt of the sweep needs it. Without a sweep, it is reported if the model's text
 * embeddings are of UMT5-XXL's size. */
static enum kvr_status model_files(const struct lister *l, const struct kvr_config *all,
                                   const char *dir)
{
    char *path = kvr_path_join(dir, "config.json");
    struct kvr_model_config c = { 0 };
    struct kvr_model_paths p = { 0 };
    struct kvr_geometry geo = { 0 };
    enum kvr_decoder_kind decoder = KVR_DECODER_VAE;
    struct kvr_resources_files n;
    enum kvr_status st =
        path ? kvr_model_config_read(&c, path) : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);

    free(path);
    KVR_TRY(st);
    if (all)
        st = kvr_decoder_parse(all->set.decoder, &decoder);
    kvr_resources_files_of(&c, decoder, &n);
    if (st == KVR_OK)
        st = kvr_model_paths(dir, &c, decoder, &p);
    if (st == KVR_OK && !c.is_lm)
        st = kvr_geometry_find(dir, &geo);
    if (st == KVR_OK && p.weights)
        emit_file(l, "network", p.weights, geo.n_params * (int64_t)sizeof(float), "");
    if (st == KVR_OK && p.table)
        emit_file(l, "words", p.table, 0, "");
    if (st == KVR_OK && p.vae)
        emit_file(l, "decoder", p.vae, n.decoder,
                  decoder == KVR_DECODER_VAE ? "only cost is measured, no pixels are decoded" : "");
    if (st == KVR_OK && (all ? kvr_plan_encodes(all, &c) : n.encoder > 0))
        st = encoder_files(l, dir, &c);
    kvr_model_paths_free(&p);
    kvr_model_config_free(&c);
    return st;
}

enum kvr_status kvr_plan_model_files(const char *dir, kvr_plan_file_fn *fn, void *ctx)
{
    const struct lister l = { fn, ctx };

    return model_files(&l, NULL, dir);
}

/* Reports the files of a suite's prompts to the callback. A file that consecutive prompts use is
 * reported once. */
static void prompt_files(const struct lister *l, const struct kvr_config_suite *s)
{
    static const char *const what[] = { "truth", "tokens", "embeddings", "image" };
    enum { KINDS = sizeof what / sizeof *what };
    const char *last[KINDS] = { "", "", "", "" };

    if (s->list)
        emit_file(l, "prompts", s->list, 0, "");
    for (int i = 0; i < s->n_prompts; i++) {
        const struct kvr_prompt_line *p = &s->prompt[i];
        const char *const path[KINDS] = { p->truth ? p->truth->path : "",
                                          p->tokens ? p->tokens->path : "",
                                          p->embedding ? p->embedding->path : "",
                                          p->image ? p->image->path : "" };

        for (int k = 0; k < KINDS; k++) {
            if (path[k][0] && strcmp(path[k], last[k]) != 0)
                emit_file(l, what[k], path[k], 0, "");
            last[k] = path[k];
        }
    }
}

enum kvr_status kvr_plan_files(const struct kvr_config *c, kvr_plan_file_fn *fn, void *ctx)
{
    const struct lister l = { fn, ctx };

    for (int i = 0; i < c->n_models; i++) {
        if (c->model[i].trace)
            emit_file(&l, "trace", c->model[i].dir, 0, "");
        else
            KVR_TRY(model_files(&l, c, c->model[i].dir));
    }
    for (int i = 0; i < c->n_suites; i++)
        prompt_files(&l, &c->suite[i]);
    for (int i = 0; i < c->n_plugins; i++)
        emit_file(&l, "plug-in", c->plugin[i].path, 0, "");
    return KVR_OK;
}
