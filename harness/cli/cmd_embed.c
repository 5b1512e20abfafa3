/* cmd_embed.c - `kvreel embed`: encodes prompts once and writes them to a pack. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/plan/find.h"
#include "harness/plan/prompt_list.h"
#include "harness/plan/suite.h"
#include "harness/engine/text/embed.h"
#include "harness/workload/shots.h"

struct embed_opts {
    const char *prompts, *model, *encoder, *tokenizer, *out, *device;
    int max_tokens, threads;
    bool json, quiet;
};

/* Prompts to encode, from a YAML suite or from a text file with one prompt per line. */
struct list {
    struct kvr_suite suite;
    struct kvr_prompt_list lines;
    struct kvr_embed_prompt *prompt;
    int n;
    char **owned; /* ids and texts of shots, freed with the list */
    int n_owned;
};

static bool is_yaml(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static enum kvr_status no_memory(const char *path)
{
    return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the prompts", path);
}

/* Adds a prompt's shots as separate texts "ID.1", "ID.2", ... */
static enum kvr_status add_shots(struct list *l, const char *id, const struct kvr_shot_line *s)
{
    for (int i = 0; i < s->n; i++) {
        char **own = &l->owned[l->n_owned];
        const int n = asprintf(&own[0], "%s.%d", id, i + 1);

        own[1] = n < 0 ? NULL : strdup(s->shot[i].text);
        if (n < 0 || !own[1]) {
            own[0] = n < 0 ? NULL : own[0];
            l->n_owned += n >= 0;
            return no_memory(id);
        }
        l->n_owned += 2;
        l->prompt[l->n++] = (struct kvr_embed_prompt){ own[0], own[1] };
    }
    return KVR_OK;
}

static enum kvr_status read_suite(struct list *l, const char *path)
{
    enum kvr_status st = KVR_OK;
    size_t capacity;

    KVR_TRY(kvr_suite_read(&l->suite, path));
    capacity = (size_t)l->suite.n_prompts * KVR_MAX_SHOTS;
    l->prompt = calloc(capacity, sizeof *l->prompt);
    l->owned = calloc(2 * capacity, sizeof *l->owned);
    if (!l->prompt || !l->owned)
        return no_memory(path);
    for (int i = 0; i < l->suite.n_prompts && st == KVR_OK; i++) {
        const struct kvr_prompt_line *p = &l->suite.prompt[i];
        struct kvr_shot_line shots;

        st = kvr_shot_line_parse(p->text, 0, &shots);
        if (st == KVR_OK && shots.n > 1)
            st = add_shots(l, p->id, &shots);
        else if (st == KVR_OK)
            l->prompt[l->n++] = (struct kvr_embed_prompt){ p->id, p->text };
        kvr_shot_line_free(&shots);
    }
    return st;
}

static enum kvr_status read_lines(struct list *l, const char *path)
{
    KVR_TRY(kvr_prompt_list_read(&l->lines, path));
    l->n = l->lines.n;
    l->prompt = calloc((size_t)l->n, sizeof *l->prompt);
    if (!l->prompt)
        return no_memory(path);
    for (int i = 0; i < l->n; i++)
        l->prompt[i] = (struct kvr_embed_prompt){ l->lines.line[i].id, l->lines.line[i].text };
    return KVR_OK;
}

static void list_free(struct list *l)
{
    for (int i = 0; i < l->n_owned; i++)
        free(l->owned[i]);
    free(l->owned);
    free(l->prompt);
    kvr_prompt_list_free(&l->lines);
    kvr_suite_free(&l->suite);
}

/* Finds the encoder and the tokenizer: at the path of their option, or else in the model's folder.
 */
static enum kvr_status find_files(const struct embed_opts *o, char **encoder, char **tokenizer)
{
    char dir[4096];

    *encoder = *tokenizer = NULL;
    if (o->model) {
        KVR_TRY(kvr_find_path(&kvr_find_model, o->model, NULL, dir, sizeof dir));
        KVR_TRY(kvr_embed_find(dir, encoder, tokenizer));
    }
    if (!*encoder && !o->encoder)
        return kvr_fail(KVR_ENOTFOUND,
                        "embed: no text encoder%s%s; give --encoder FILE, or --model with a folder "
                        "that contains models_t5_umt5-xxl-enc-bf16.pth",
                        o->model ? " in model folder " : "", o->model ? dir : "");
    if (!*tokenizer && !o->tokenizer)
        return kvr_fail(KVR_ENOTFOUND,
                        "embed: no tokenizer%s%s; give --tokenizer FILE, or --model "
                        "with a folder that contains google/umt5-xxl/spiece.model",
                        o->model ? " in model folder " : "", o->model ? dir : "");
    return KVR_OK;
}

static void progress(void *ctx, int done, int n)
{
    const bool *quiet = ctx;

    if (!*quiet)
        fprintf(stderr, "kvreel: embed: %d of %d prompts\n", done, n);
}

static enum kvr_status embed(const struct embed_opts *o, struct kvr_embed_report *r, int *n)
{
    char *encoder, *tokenizer;
    struct list l = { 0 };
    bool quiet = o->quiet;
    enum kvr_status st = find_files(o, &encoder, &tokenizer);

    if (st == KVR_OK)
        st = is_yaml(o->prompts) ? read_suite(&l, o->prompts) : read_lines(&l, o->prompts);
    if (st == KVR_OK) {
        const struct kvr_embed_job job = { .encoder = o->encoder ? o->encoder : encoder,
                                           .tokenizer = o->tokenizer ? o->tokenizer : tokenizer,
                                           .device = o->device,
                                           .max_tokens = o->max_tokens,
                                           .n = l.n,
                                           .prompt = l.prompt,
                                           .done = progress,
                                           .ctx = &quiet };

        *n = l.n;
        st = kvr_embed(&job, o->out, r);
    }
    list_free(&l);
    free(encoder);
    free(tokenizer);
    return st;
}

static int run(const struct kvr_call *call)
{
    const struct embed_opts *o = call->opts;
    struct kvr_embed_report r;
    enum kvr_status st;
    int n = 0;

    if (!o->prompts || !o->out)
        return kvr_cli_fail(kvr_fail(KVR_EINVAL,
                                     "embed: %s is missing: needs both --prompts FILE and -o PACK",
                                     o->prompts ? "-o" : "--prompts"));
    if (o->threads)
        omp_set_num_threads(o->threads);
    st = embed(o, &r, &n);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:i, s:I, s:i, s:i, s:i}", "pack", o->out, "prompts",
                                      n, "tokens", (json_int_t)r.n_tokens, "longest", r.longest,
                                      "cut", r.n_cut, "dim", r.dim),
                            KVR_EXIT_OK);
    printf("%s: %d prompts, %lld tokens, each with an embedding of %d values\n", o->out, n,
           (long long)r.n_tokens, r.dim);
    if (r.n_cut)
        printf(
            "%d prompts reach the limit of %d tokens (--max-tokens); longer texts are truncated\n",
            r.n_cut, o->max_tokens);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct embed_opts, prompts, "prompts", 'p', "FILE", NULL,
                 "suite (.yaml), or text file with one prompt per line; the prompts get the ids "
                 "p0001, p0002, ..."),
    KVR_ARG_TEXT(struct embed_opts, out, "out", 'o', "PACK", NULL,
                 "output file of text embeddings, one tensor per prompt (safetensors)"),
    KVR_ARG_TEXT(struct embed_opts, model, "model", 0, "NAME", NULL,
                 "model folder that contains the text encoder and the tokenizer"),
    KVR_ARG_TEXT(struct embed_opts, encoder, "encoder", 0, "FILE", NULL,
                 "weights of the text encoder, the file models_t5_umt5-xxl-enc-bf16.pth"),
    KVR_ARG_TEXT(struct embed_opts, tokenizer, "tokenizer", 0, "FILE", NULL,
                 "tokenizer file spiece.model, or a folder that contains it"),
    KVR_ARG_INT(
        struct embed_opts, max_tokens, "max-tokens", 0, "N", "512", 1, 8192,
        "maximum number of tokens per prompt; must equal text_len in the model's configuration"),
    KVR_ARG_TEXT(struct embed_opts, device, "device", 0, "NAME", "cpu", KVR_DEVICE_HELP),
    KVR_ARG_INT(struct embed_opts, threads, "threads", 't', "N", "0", 0, 1024,
                "number of CPU threads; 0 means all"),
    KVR_ARG_FLAG(struct embed_opts, json, "json", 0, "print JSON"),
    KVR_ARG_FLAG(struct embed_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_embed = {
    .name = "embed",
    .summary = "encode prompts with Wan's text encoder into a pack (a file of embeddings)",
    .usage = "--prompts FILE -o PACK (--model DIR | --encoder FILE --tokenizer FILE)",
    .examples =
        "  kvreel embed --prompts prompts.txt --model Wan2.1-T2V-1.3B -o pack.safetensors\n",
    .args = args,
    .opts_size = sizeof(struct embed_opts),
    .max_words = 0,
    .run = run,
};
