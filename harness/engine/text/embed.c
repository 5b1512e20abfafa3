/* embed.c - computes the embeddings of texts in batches and writes them to one file. */
#include "harness/engine/text/embed.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/engine/text/tokens.h"
#include "harness/engine/text/umt5.h"

enum { BATCH_TOKENS = 2048 };

static const char spiece_name[] = "spiece.model";

struct embedder {
    const struct kvr_embed_job *job;
    struct kvr_dev *dev;
    struct kvr_umt5 *encoder;
    struct kvr_tokenizer *tokenizer;
    struct kvr_umt5_text *text; /* tokens of each prompt [n]; the token ids are in `ids` */
    int *ids;                   /* [n, max_tokens] */
    float *rows;                /* embeddings of all prompts */
    struct kvr_st_item *item;   /* [n] */
    int64_t n_tokens;
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "embed: out of memory");
}

static enum kvr_status tokenize(struct embedder *m, struct kvr_embed_report *report)
{
    const struct kvr_embed_job *job = m->job;
    const size_t most = (size_t)job->max_tokens;

    m->text = calloc((size_t)job->n, sizeof *m->text);
    m->item = calloc((size_t)job->n, sizeof *m->item);
    m->ids = calloc((size_t)job->n * most, sizeof *m->ids);
    if (!m->text || !m->item || !m->ids)
        return no_memory();
    for (int i = 0; i < job->n; i++) {
        int *ids = m->ids + (size_t)i * most;

        const enum kvr_status st =
            kvr_tokenize(m->tokenizer, job->prompt[i].text, job->max_tokens, ids, &m->text[i].n);

        if (st != KVR_OK)
            return kvr_fail_prefix(st == KVR_ENOMEM ? st : KVR_EFORMAT, "prompt '%s'",
                                   job->prompt[i].id);
        m->text[i].ids = ids;
        m->n_tokens += m->text[i].n;
        report->n_cut += m->text[i].n == job->max_tokens;
        if (m->text[i].n > report->longest)
            report->longest = m->text[i].n;
    }
    report->n_tokens = m->n_tokens;
    report->dim = kvr_umt5_sizes(m->encoder)->dim;
    return KVR_OK;
}

static enum kvr_status encode(struct embedder *m)
{
    const struct kvr_embed_job *job = m->job;
    const int dim = kvr_umt5_sizes(m->encoder)->dim;
    float *to;

    m->rows = malloc((size_t)m->n_tokens * (size_t)dim * sizeof *m->rows);
    if (!m->rows)
        return no_memory();
    to = m->rows;
    for (int first = 0, next; first < job->n; first = next) {
        int64_t n = 0;

        for (next = first; next < job->n && (next == first || n + m->text[next].n <= BATCH_TOKENS);
             next++) {
            m->item[next] = (struct kvr_st_item){
                job->prompt[next].id,
                { .dtype = KVR_F32,
                  .n_dims = 2,
                  .shape = { m->text[next].n, dim },
                  .data = to + n * dim },
            };
            n += m->text[next].n;
        }
        KVR_TRY(kvr_umt5_encode(m->encoder, m->text + first, next - first, to));
        to += n * dim;
        if (job->done)
            job->done(job->ctx, next, job->n);
    }
    return KVR_OK;
}

static enum kvr_status write_pack(const struct embedder *m, const char *out)
{
    char encoder[KVR_SHA256_HEX], tokenizer[KVR_SHA256_HEX];
    const char *const metadata[] = { "format", "kvreel embeddings 1", "encoder_sha256",
                                     encoder,  "tokenizer_sha256",    tokenizer,
                                     NULL };
    const char *path = m->job->tokenizer;
    char *inside = kvr_path_is_dir(path) ? kvr_path_join(path, spiece_name) : NULL;
    enum kvr_status st = kvr_sha256_file(m->job->encoder, encoder);

    if (st == KVR_OK)
        st = kvr_sha256_file(inside ? inside : path, tokenizer);
    if (st == KVR_OK)
        st = kvr_mkdirs_above(out);
    if (st == KVR_OK)
        st = kvr_st_write(out, m->item, m->job->n, metadata);
    free(inside);
    return st;
}

enum kvr_status kvr_embed(const struct kvr_embed_job *job, const char *out,
                          struct kvr_embed_report *report)
{
    struct embedder m = { .job = job };
    enum kvr_status st;

    memset(report, 0, sizeof *report);
    if (job->n < 1 || job->max_tokens < 1)
        return kvr_fail(
            KVR_EINVAL,
            "embed: %d prompts of up to %d tokens were given, need at least 1 prompt and 1 token",
            job->n, job->max_tokens);
    st = kvr_tokenizer_open(&m.tokenizer, job->tokenizer);
    if (st == KVR_OK)
        st = kvr_dev_open_named(&m.dev, job->device);
    if (st == KVR_OK)
        st = kvr_umt5_open(&m.encoder, m.dev, job->encoder);
    if (st == KVR_OK && kvr_tokenizer_count(m.tokenizer) > kvr_umt5_sizes(m.encoder)->vocabulary)
        st = kvr_fail(
            KVR_EFORMAT,
            "%s: the tokenizer has %d pieces, more than encoder %s has embeddings for (%d)",
            job->tokenizer, kvr_tokenizer_count(m.tokenizer), job->encoder,
            kvr_umt5_sizes(m.encoder)->vocabulary);
    if (st == KVR_OK)
        st = tokenize(&m, report);
    if (st == KVR_OK)
        st = encode(&m);
    if (st == KVR_OK)
        st = write_pack(&m, out);
    kvr_umt5_close(&m.encoder);
    kvr_tokenizer_close(&m.tokenizer);
    kvr_dev_close(&m.dev);
    free(m.text);
    free(m.ids);
    free(m.item);
    free(m.rows);
    return st;
}

/* --- reading a pack (file of embeddings) ------------------------------------------------ */

static float value_at(const struct kvr_tensor *t, int64_t i)
{
    return t->dtype == KVR_F32 ? ((const float *)t->data)[i]
                               : kvr_bf16_to_f32(((const kvr_bf16 *)t->data)[i]);
}

static enum kvr_status hash_rows(struct kvr_embedding *e)
{
    char shape[64];
    struct kvr_sha256 h;
    enum kvr_status st;

    snprintf(shape, sizeof shape, "%s %d %d\n", kvr_dtype_name(e->rows.dtype), e->n, e->dim);
    KVR_TRY(kvr_sha256_open(&h));
    st = kvr_sha256_add(&h, shape, strlen(shape));
    if (st == KVR_OK)
        st = kvr_sha256_add(&h, e->rows.data, kvr_tensor_bytes(&e->rows));
    if (st == KVR_OK)
        return kvr_sha256_close(&h, e->sha256);
    kvr_sha256_close(&h, NULL);
    return st;
}

static enum kvr_status check_tensor(struct kvr_embedding *e, const char *path, const char *tensor)
{
    const struct kvr_tensor *t = &e->rows;
    char have[96];

    KVR_TRY(kvr_st_get_shaped(e->file, tensor, 2, (int64_t[]){ -1, -1 }, &e->rows));
    if ((t->dtype != KVR_F32 && t->dtype != KVR_BF16) || t->shape[0] < 1 || t->shape[1] < 1 ||
        t->shape[0] > 1 << 16 || t->shape[1] > 1 << 16)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: tensor '%s' has type %s and shape %s, need F32 or BF16 and [tokens, dim], "
            "each extent 1 to 65536",
            path, tensor, kvr_dtype_name(t->dtype),
            kvr_shape_text(t->shape, t->n_dims, have, sizeof have));
    e->n = (int)t->shape[0];
    e->dim = (int)t->shape[1];
    for (int64_t i = 0; i < kvr_tensor_count(t); i++)
        if (!isfinite(value_at(t, i)))
            return kvr_fail(
                KVR_ENAN, "%s: tensor '%s' contains %g at element %lld; embeddings must be finite",
                path, tensor, (double)value_at(t, i), (long long)i);
    return hash_rows(e);
}

enum kvr_status kvr_embedding_open(struct kvr_embedding *e, const char *path, const char *tensor)
{
    enum kvr_status st;

    memset(e, 0, sizeof *e);
    KVR_TRY(kvr_st_open(&e->file, path));
    st = check_tensor(e, path, tensor);
    if (st != KVR_OK)
        kvr_embedding_close(e);
    return st;
}

void kvr_embedding_close(struct kvr_embedding *e)
{
    if (e->file)
        kvr_st_close(&e->file);
    memset(e, 0, sizeof *e);
}

enum kvr_status kvr_embedding_fill(const struct kvr_embedding *e, int text_len, int text_dim,
                                   float *P)
{
    const int64_t n = (int64_t)e->n * e->dim;

    if (e->n > text_len || e->dim != text_dim)
        return kvr_fail(KVR_EINVAL,
                        "the prompt's embedding has %d tokens of %d values, the model takes up to "
                        "%d tokens of %d values",
                        e->n, e->dim, text_len, text_dim);
    for (int64_t i = 0; i < n; i++)
        P[i] = value_at(&e->rows, i);
    memset(P + n, 0, ((size_t)text_len * (size_t)text_dim - (size_t)n) * sizeof *P);
    return KVR_OK;
}

/* --- finding the encoder and the tokenizer in a folder ---------------------------------- */

static int is_encoder(const struct dirent *d)
{
    return strncmp(d->d_name, "models_t5", 9) == 0 &&
           (kvr_path_has_suffix(d->d_name, ".pth") ||
            kvr_path_has_suffix(d->d_name, ".safetensors"));
}

static enum kvr_status find_encoder(const char *dir, char **out)
{
    struct dirent **all = NULL;
    const int n = scandir(dir, &all, is_encoder, alphasort);

    if (n < 0 && errno == ENOMEM)
        return no_memory();
    if (n > 0)
        *out = kvr_path_join(dir, all[0]->d_name);
    for (int i = 0; i < n; i++)
        free(all[i]);
    free(all);
    return n <= 0 || *out ? KVR_OK : no_memory();
}

static enum kvr_status find_tokenizer(const char *dir, char **out)
{
    static const char *const places[] = { "google/umt5-xxl/spiece.model", "tokenizer/spiece.model",
                                          spiece_name };

    for (size_t i = 0; i < sizeof places / sizeof *places && !*out; i++) {
        *out = kvr_path_join(dir, places[i]);
        if (!*out)
            return no_memory();
        if (!kvr_path_exists(*out)) {
            free(*out);
            *out = NULL;
        }
    }
    return KVR_OK;
}

enum kvr_status kvr_embed_find(const char *dir, char **encoder, char **tokenizer)
{
    *encoder = *tokenizer = NULL;
    KVR_TRY(find_encoder(dir, encoder));
    return find_tokenizer(dir, tokenizer);
}
