/* encode.c - collects the prompts of a sweep, names the pack file of their embeddings, and encodes
 * the missing prompts. */
#include "harness/run/encode.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/core/result_cache.h"
#include "harness/device/names.h"
#include "harness/engine/text/embed.h"
#include "harness/run/worker_encode.h"
#include "harness/workload/shots.h"

enum { LOOK_MS = 1000 }; /* polling interval for a busy GPU */

/* Distinct texts to encode, of all cells that will run with one model. */
struct texts {
    struct kvr_embed_prompt *prompt; /* id: from `ids` */
    char (*ids)[KVR_KEY_LEN];
    int n, max_tokens;
    char **owned; /* texts of shots, owned; `prompt` points to them */
    int n_owned;
    const struct kvr_settings *set; /* `device` and `threads` apply to the encoder */
    struct kvr_gpus *gpus;
    bool (*stopped)(void); /* NULL: never */
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating the prompts");
}

enum kvr_status kvr_encoder_identify(const char *dir, bool cheap, bool *there,
                                     char sha256[KVR_SHA256_HEX])
{
    enum kvr_status (*const hash)(const char *, char *) =
        cheap ? kvr_file_sha256_known : kvr_file_sha256;
    char both[2 * KVR_SHA256_HEX], one[KVR_SHA256_HEX], other[KVR_SHA256_HEX];
    char *encoder, *tokenizer;
    enum kvr_status st = kvr_embed_find(dir, &encoder, &tokenizer);

    sha256[0] = 0;
    *there = encoder && tokenizer;
    if (st == KVR_OK && *there) {
        st = hash(encoder, one);
        if (st == KVR_OK)
            st = hash(tokenizer, other);
        if (st == KVR_OK && one[0] && other[0]) {
            const int n = snprintf(both, sizeof both, "%s %s", one, other);

            st = kvr_sha256_hex(both, (size_t)n, sha256);
        }
    }
    free(encoder);
    free(tokenizer);
    return st;
}

static bool is_wanted(const struct kvr_job *j, const struct kvr_config_model *model)
{
    return j->state == KVR_WAITING && j->cell->encodes && j->cell->model == model;
}

static enum kvr_status add_text(struct texts *t, const char *text)
{
    char id[KVR_KEY_LEN];

    KVR_TRY(kvr_cell_hash(text, id));
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->ids[i], id) == 0)
            return KVR_OK;
    memcpy(t->ids[t->n], id, sizeof id);
    t->prompt[t->n] = (struct kvr_embed_prompt){ t->ids[t->n], text };
    t->n++;
    return KVR_OK;
}

/* Adds the text of every shot of a prompt; a prompt without shots is added as one text. */
static enum kvr_status add_shots(struct texts *t, const char *text)
{
    struct kvr_shot_line s;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_shot_line_parse(text, 0, &s));
    if (s.n == 1)
        st = add_text(t, text);
    for (int i = 0; s.n > 1 && i < s.n && st == KVR_OK; i++) {
        const int before = t->n;

        st = add_text(t, s.shot[i].text);
        /* prompt[] points to the text until the pack is written */
        if (t->n > before) {
            t->owned[t->n_owned++] = s.shot[i].text;
            s.shot[i].text = NULL;
        }
    }
    kvr_shot_line_free(&s);
    return st;
}

static int by_id(const void *a, const void *b)
{
    const struct kvr_embed_prompt *x = a, *y = b;

    return strcmp(x->id, y->id);
}

/* Collects the texts to encode, sorted by hash, so that equal sets of texts give the pack file
 * equal names. */
static enum kvr_status gather(struct texts *t, const struct kvr_sweep *sweep,
                              const struct kvr_job *jobs, const struct kvr_config_model *model)
{
    int n = 0;

    for (int i = 0; i < sweep->n_cells; i++)
        n += is_wanted(&jobs[i], model);
    if (n == 0)
        return KVR_OK;
    n *= KVR_MAX_SHOTS; /* upper bound on the number of texts */
    t->prompt = calloc((size_t)n, sizeof *t->prompt);
    t->ids = calloc((size_t)n, sizeof *t->ids);
    t->owned = calloc((size_t)n, sizeof *t->owned);
    if (!t->prompt || !t->ids || !t->owned)
        return no_memory();
    for (int i = 0; i < sweep->n_cells; i++)
        if (is_wanted(&jobs[i], model)) {
            t->max_tokens = jobs[i].cell->max_tokens;
            KVR_TRY(add_shots(t, jobs[i].cell->prompt->text));
        }
    qsort(t->prompt, (size_t)t->n, sizeof *t->prompt, by_id);
    return KVR_OK;
}

static enum kvr_status name_pack(const struct texts *t, const char *sha256, const char *out_dir,
                                 char **out)
{
    struct kvr_sha256 h;
    char hex[KVR_SHA256_HEX], name[64];
    char *dir = kvr_path_join(out_dir, "embeddings");
    enum kvr_status st = dir ? kvr_sha256_open(&h) : no_memory();

    if (st == KVR_OK) {
        st = kvr_sha256_add(&h, sha256, strlen(sha256));
        for (int i = 0; st == KVR_OK && i < t->n; i++)
            st = kvr_sha256_add(&h, t->prompt[i].id, strlen(t->prompt[i].id));
        if (st == KVR_OK)
            st = kvr_sha256_add(&h, t->set->device, strlen(t->set->device));
        if (st == KVR_OK)
            st = kvr_sha256_close(&h, hex);
        else
            kvr_sha256_close(&h, NULL);
    }
    if (st == KVR_OK) {
        snprintf(name, sizeof name, "%.32s-%d.safetensors", hex, t->max_tokens);
        *out = kvr_path_join(dir, name);
        st = *out ? KVR_OK : no_memory();
    }
    free(dir);
    return st;
}

static void write_progress(void *ctx, int done, int n)
{
    if (ctx)
        fprintf(ctx, "text encoder: %d of %d prompts\n", done, n);
}

/* Encodes the texts in a worker process. It waits for a free GPU and locks it, as a cell's worker
 * does. */
static enum kvr_status encode_there(const struct texts *t, const struct kvr_embed_job *job,
                                    const char *pack)
{
    bool taken = false;
    int at = -1;
    enum kvr_status st = KVR_OK;

    while (st == KVR_OK && !taken) {
        st = kvr_gpu_acquire(t->gpus, &at, &taken);
        if (st == KVR_OK && !taken)
            poll(NULL, 0, LOOK_MS);
        if (st == KVR_OK && t->stopped && t->stopped())
            st = kvr_fail(KVR_EINTERRUPTED, "text encoder: interrupted");
    }
    /* if there is only one GPU, the worker inherits CUDA_VISIBLE_DEVICES */
    if (st == KVR_OK)
        st = kvr_encode_in_worker(job, pack, t->set->threads,
                                  t->gpus->n > 1 ? kvr_gpus_uuid(t->gpus, at) : "", t->stopped);
    kvr_gpu_release(t->gpus, at);
    if (st == KVR_OK)
        job->done(job->ctx, job->n, job->n);
    return st;
}

static enum kvr_status encode(const struct texts *t, const char *dir, const char *pack, FILE *say)
{
    enum kvr_backend backend = KVR_CPU;
    char *encoder, *tokenizer;
    enum kvr_status st = kvr_embed_find(dir, &encoder, &tokenizer);
    struct kvr_embed_report report;

    if (st == KVR_OK && (!encoder || !tokenizer))
        st = kvr_fail(KVR_ENOTFOUND,
                      "%s: the text encoder or tokenizer was deleted after the sweep was planned",
                      dir);
    if (st == KVR_OK) {
        const struct kvr_embed_job job = { .encoder = encoder,
                                           .tokenizer = tokenizer,
                                           .device = t->set->device,
                                           .max_tokens = t->max_tokens,
                                           .n = t->n,
                                           .prompt = t->prompt,
                                           .done = write_progress,
                                           .ctx = say };

        kvr_device_backend(job.device, &backend);
        st = kvr_backend_in_host(backend) ? kvr_embed(&job, pack, &report)
                                          : encode_there(t, &job, pack);
    }
    free(encoder);
    free(tokenizer);
    return st;
}

static enum kvr_status one_model(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                 const struct kvr_config_model *model, struct kvr_gpus *gpus,
                                 const char *out_dir, FILE *say, char **pack)
{
    struct texts t = { .set = &sweep->config->set,
                       .gpus = gpus,
                       .stopped = sweep->config->stopped };
    char sha256[KVR_SHA256_HEX];
    bool there;
    enum kvr_status st = gather(&t, sweep, jobs, model);

    if (st == KVR_OK && t.n > 0) {
        st = kvr_encoder_identify(model->dir, false, &there, sha256);
        if (st == KVR_OK)
            st = name_pack(&t, sha256, out_dir, pack);
        if (st == KVR_OK && !kvr_path_exists(*pack))
            st = encode(&t, model->dir, *pack, say);
    }
    for (int i = 0; i < t.n_owned; i++)
        free(t.owned[i]);
    free(t.owned);
    free(t.prompt);
    free(t.ids);
    return st;
}

enum kvr_status kvr_encode_waiting(const struct kvr_sweep *sweep, const struct kvr_job *jobs,
                                   struct kvr_gpus *gpus, const char *out_dir, FILE *say,
                                   char ***packs)
{
    const struct kvr_config *c = sweep->config;

    *packs = calloc((size_t)c->n_models + 1, sizeof **packs);
    if (!*packs)
        return no_memory();
    for (int i = 0; i < c->n_models; i++)
        KVR_TRY(one_model(sweep, jobs, &c->model[i], gpus, out_dir, say, &(*packs)[i]));
    return KVR_OK;
}

void kvr_encoded_free(char **packs, int n_models)
{
    for (int i = 0; packs && i < n_models; i++)
        free(packs[i]);
    free(packs);
}
