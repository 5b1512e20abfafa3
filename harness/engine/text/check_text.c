/* check_text.c - see check_text.h. */
#include "harness/engine/text/check_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/engine/check_report.h"
#include "harness/engine/text/embed.h"
#include "harness/engine/text/umt5.h"
#include "harness/files/weights/weights.h"

/* Bounds of the relative L2 error of embeddings. `parity` is for equal weights, where F32
 * arithmetic differs from F64 by 2.2e-7. `rounded` is for an encoder with BF16 weights and
 * embeddings recorded with unrounded weights; the embeddings differ by 4.6e-3. */
static const struct kvr_tolerance parity = { 1e-5, INFINITY };
static const struct kvr_tolerance rounded = { 2e-2, INFINITY };

static const struct row {
    const char *ids, *mask, *out;
    bool bf16; /* the embeddings were recorded with BF16 weights */
} rows[] = {
    { "ids", "mask", "out", false },
    { "ids", "mask", "prompt_embeds", false },
    { "ids_long", "mask_long", "long.out", false },
    { "ids", "mask", "bf16_weights.out", true },
};

struct texts {
    struct kvr_tensor ids, mask, out;
    int n, len, dim;
};

static int64_t integer(const struct kvr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case KVR_I64:
        return ((const int64_t *)t->data)[i];
    case KVR_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

static bool is_integers(const struct kvr_tensor *t)
{
    const bool bytes = t->dtype == KVR_U8 || t->dtype == KVR_BOOL;

    return (t->dtype == KVR_I64 || t->dtype == KVR_I32 || bytes) && t->n_dims == 2;
}

static enum kvr_status read_texts(struct kvr_st *f, const struct row *r, int dim, struct texts *t)
{
    char ids[96], mask[96];

    KVR_TRY(kvr_st_get(f, r->ids, &t->ids));
    KVR_TRY(kvr_st_get(f, r->mask, &t->mask));
    KVR_TRY(kvr_st_get(f, r->out, &t->out));
    t->n = (int)t->ids.shape[0];
    t->len = (int)t->ids.shape[1];
    t->dim = dim;
    if (!is_integers(&t->ids) || !is_integers(&t->mask) ||
        kvr_tensor_count(&t->ids) != kvr_tensor_count(&t->mask))
        return kvr_fail(
            KVR_EFORMAT,
            "%s: tensor '%s' is %s %s and tensor '%s' is %s %s, need integer tensors of the same "
            "shape [texts, length]",
            kvr_st_path(f), r->ids, kvr_dtype_name(t->ids.dtype),
            kvr_shape_text(t->ids.shape, t->ids.n_dims, ids, sizeof ids), r->mask,
            kvr_dtype_name(t->mask.dtype),
            kvr_shape_text(t->mask.shape, t->mask.n_dims, mask, sizeof mask));
    if (t->out.dtype != KVR_F32 || kvr_tensor_count(&t->out) != kvr_tensor_count(&t->ids) * dim)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' has %lld values of type %s, need F32 and %lld values "
                        "(%d for each of the %lld tokens of '%s')",
                        kvr_st_path(f), r->out, (long long)kvr_tensor_count(&t->out),
                        kvr_dtype_name(t->out.dtype), (long long)kvr_tensor_count(&t->ids) * dim,
                        dim, (long long)kvr_tensor_count(&t->ids), r->ids);
    return KVR_OK;
}

/* Returns the number of unmasked tokens of text i, which precede the masked tokens. */
static int length_of(const struct texts *t, int i)
{
    int n = 0;

    while (n < t->len && integer(&t->mask, (int64_t)i * t->len + n))
        n++;
    return n;
}

static enum kvr_status encode(struct kvr_umt5 *e, const struct texts *t, float *got, float *want,
                              int64_t *n_values)
{
    int *ids = malloc((size_t)t->len * sizeof *ids);
    enum kvr_status st =
        ids ? KVR_OK : kvr_fail(KVR_ENOMEM, "check: out of memory while allocating a text");
    int64_t at = 0;

    for (int i = 0; i < t->n && st == KVR_OK; i++) {
        const struct kvr_umt5_text text = { ids, length_of(t, i) };

        for (int j = 0; j < text.n; j++)
            ids[j] = (int)integer(&t->ids, (int64_t)i * t->len + j);
        if (!text.n)
            continue;
        st = kvr_umt5_encode(e, &text, 1, got + at);
        memcpy(want + at, (const float *)t->out.data + (int64_t)i * t->len * t->dim,
               (size_t)text.n * (size_t)t->dim * sizeof *want);
        at += (int64_t)text.n * t->dim;
    }
    free(ids);
    *n_values = at;
    return st;
}

static enum kvr_status check_row(struct kvr_check_report *r, struct kvr_st *f, struct kvr_umt5 *e,
                                 const struct row *row, const struct kvr_tolerance *tol)
{
    struct texts t;
    float *got, *want;
    int64_t n;
    enum kvr_status st;

    KVR_TRY(read_texts(f, row, kvr_umt5_sizes(e)->dim, &t));
    got = calloc(2 * (size_t)kvr_tensor_count(&t.out) + 1, sizeof *got);
    if (!got)
        return kvr_fail(KVR_ENOMEM, "check: out of memory while allocating %d texts", t.n);
    want = got + kvr_tensor_count(&t.out);
    st = encode(e, &t, got, want, &n);
    if (st == KVR_OK) {
        const struct kvr_tensor golden = {
            .data = want, .dtype = KVR_F32, .n_dims = 1, .shape = { n }
        };

        st = kvr_check_compare(r, row->out, got, n, &golden, tol);
    }
    free(got);
    return st;
}

/* Sets *out to whether the encoder's weights are stored as BF16. */
static enum kvr_status is_rounded(const char *path, bool *out)
{
    const struct kvr_weight *t;
    struct kvr_weights *w;

    KVR_TRY(kvr_weights_open(&w, path));
    t = kvr_weights_find(w, "token_embedding.weight");
    *out = t && t->dtype == KVR_BF16;
    kvr_weights_close(&w);
    return KVR_OK;
}

/* Compares an encoder's embeddings with the embeddings recorded with weights of the same type, BF16
 * or unrounded. If `alone`, `path` is the model folder's only encoder. Then an encoder with BF16
 * weights is also compared with the embeddings recorded with unrounded weights. */
static enum kvr_status check_encoder(struct kvr_check_report *r, struct kvr_st *f,
                                     struct kvr_dev *dev, const char *path, bool alone)
{
    struct kvr_umt5 *e;
    enum kvr_status st = KVR_OK;
    bool bf16;

    KVR_TRY(is_rounded(path, &bf16));
    KVR_TRY(kvr_umt5_open(&e, dev, path));
    for (size_t i = 0; i < sizeof rows / sizeof *rows && st == KVR_OK; i++) {
        const bool own = rows[i].bf16 == bf16;

        if (kvr_st_has(f, rows[i].out) && kvr_st_has(f, rows[i].ids) &&
            kvr_st_has(f, rows[i].mask) && !kvr_check_has(r, rows[i].out) &&
            (own || (alone && bf16)))
            st = check_row(r, f, e, &rows[i], own ? &parity : &rounded);
    }
    kvr_umt5_close(&e);
    return st;
}

static enum kvr_status check_file(struct kvr_check_report *r, const char *dir, const char *golden,
                                  const struct kvr_check_how *how)
{
    char *path[2] = { kvr_path_join(dir, "umt5.safetensors"), NULL }, *tokenizer = NULL;
    struct kvr_dev *dev = NULL;
    struct kvr_st *f = NULL;
    bool there[2] = { false, false };
    enum kvr_status st = path[0] ? kvr_embed_find(dir, &path[1], &tokenizer)
                                 : kvr_fail(KVR_ENOMEM, "check: out of memory");

    for (int i = 0; i < 2; i++)
        there[i] = path[i] && kvr_path_exists(path[i]);
    if (st == KVR_OK && !there[0] && !there[1])
        st = kvr_check_note(r, "umt5_golden.safetensors", KVR_CHECK_NOT_BUILT,
                            "the folder has no text encoder: umt5.safetensors, models_t5*.pth or "
                            "models_t5*.safetensors");
    if (st == KVR_OK && (there[0] || there[1])) {
        st = kvr_dev_open_named(&dev, how && how->device ? how->device : "cpu");
        if (st == KVR_OK)
            st = kvr_st_open(&f, golden);
        for (int i = 0; i < 2 && st == KVR_OK; i++)
            if (there[i])
                st = check_encoder(r, f, dev, path[i], !there[1 - i]);
    }
    kvr_st_close(&f);
    kvr_dev_close(&dev);
    free(path[0]);
    free(path[1]);
    free(tokenizer);
    return st;
}

enum kvr_status kvr_check_text(struct kvr_check_report *r, const char *dir,
                               const struct kvr_check_how *how)
{
    return kvr_check_golden(r, dir, "umt5_golden.safetensors", how, check_file);
}
