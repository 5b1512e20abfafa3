/* text_teacher.c - reads a text's token ids, and computes the teacher: the keys and values in BF16
 * and the hidden states in F32 of all tokens. The KV cache of a method encodes these keys and
 * values. The method's logits are compared with the logits of these hidden states. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/engine/lm.h"
#include "harness/workload/text.h"

enum { CHUNK = 512 }; /* number of tokens per forward pass */

/* Reads element i of an integer tensor of any type; false: it does not fit into int64_t. */
static bool integer_at(const struct kvr_tensor *x, int64_t i, int64_t *out)
{
    const unsigned char *at = (const unsigned char *)x->data + (size_t)i * kvr_dtype_size(x->dtype);

#define CASE(name, type)                                                                           \
    case name: {                                                                                   \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        *out = (int64_t)value;                                                                     \
        return true;                                                                               \
    }
    switch (x->dtype) {
        CASE(KVR_U8, uint8_t)
        CASE(KVR_I8, int8_t)
        CASE(KVR_U16, uint16_t)
        CASE(KVR_I16, int16_t)
        CASE(KVR_U32, uint32_t)
        CASE(KVR_I32, int32_t)
        CASE(KVR_I64, int64_t)
    case KVR_U64: {
        uint64_t value;

        memcpy(&value, at, sizeof value);
        *out = (int64_t)value;
        return value <= INT64_MAX;
    }
    default:
        return false;
    }
#undef CASE
}

static bool is_integer(enum kvr_dtype t)
{
    switch (t) {
    case KVR_U8:
    case KVR_I8:
    case KVR_U16:
    case KVR_I16:
    case KVR_U32:
    case KVR_I32:
    case KVR_U64:
    case KVR_I64:
        return true;
    default:
        return false;
    }
}

static enum kvr_status take_ids(struct kvr_tokens *t, const struct kvr_tensor *x, const char *path,
                                const char *tensor)
{
    t->id = x->data;
    if (x->dtype != KVR_I32) {
        t->own = malloc((size_t)t->n * sizeof *t->own);
        if (!t->own)
            return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d token ids", path,
                            t->n);
        t->id = t->own;
    }
    for (int i = 0; i < t->n; i++) {
        int64_t id = 0;

        if (!integer_at(x, i, &id) || id < 0 || id > INT32_MAX)
            return kvr_fail(KVR_EFORMAT,
                            "%s: tensor '%s': the token at index %d has id %" PRId64
                            ", need 0..%" PRId32,
                            path, tensor, i, id, INT32_MAX);
        if (t->own)
            t->own[i] = (int32_t)id;
    }
    return KVR_OK;
}

enum kvr_status kvr_tokens_open(struct kvr_tokens *t, const char *path, const char *tensor)
{
    struct kvr_tensor x;
    enum kvr_status st;
    int64_t n = 0;

    memset(t, 0, sizeof *t);
    KVR_TRY(kvr_st_open(&t->file, path));
    st = kvr_st_get(t->file, tensor, &x);
    if (st == KVR_OK) {
        n = x.n_dims > 0 ? x.shape[x.n_dims - 1] : 0;
        if (x.n_dims > 2 || (x.n_dims == 2 && x.shape[0] != 1) || n < 2 || n > 1 << 24 ||
            !is_integer(x.dtype))
            st = kvr_fail(KVR_EFORMAT,
                          "%s: tensor '%s' is %s with %d dimensions; token ids must be integers "
                          "[n] or [1,n] with n in 2..%d",
                          path, tensor, kvr_dtype_name(x.dtype), x.n_dims, 1 << 24);
    }
    if (st == KVR_OK) {
        t->n = (int)n;
        st = take_ids(t, &x, path, tensor);
    }
    if (st == KVR_OK)
        st = kvr_sha256_hex(t->id, (size_t)t->n * sizeof *t->id, t->sha256);
    if (st != KVR_OK)
        kvr_tokens_close(t);
    return st;
}

void kvr_tokens_close(struct kvr_tokens *t)
{
    kvr_st_close(&t->file);
    free(t->own);
    memset(t, 0, sizeof *t);
}

void kvr_teacher_free(struct kvr_teacher *t)
{
    if (t->file) {
        kvr_st_close(&t->file);
    } else {
        free(t->k);
        free(t->v);
        free(t->hidden);
    }
    memset(t, 0, sizeof *t);
}

/* --- the file --------------------------------------------------------------------------- */

struct extents {
    int64_t kv[3], hidden[2];
};

static struct extents extents_of(const struct kvr_model *m, int n)
{
    const struct kvr_model_config *c = kvr_model_config(m);

    return (struct extents){ { c->n_layers, n, (int64_t)c->n_kv_heads * (c->dim / c->n_heads) },
                             { n, c->dim } };
}

static enum kvr_status read_file(const struct kvr_model *m, int n, const char *path,
                                 struct kvr_teacher *out)
{
    const struct extents e = extents_of(m, n);
    struct kvr_tensor k = { 0 }, v = { 0 }, hidden = { 0 };
    enum kvr_status st;

    KVR_TRY(kvr_st_open(&out->file, path));
    st = kvr_st_get_shaped(out->file, "k", 3, e.kv, &k);
    if (st == KVR_OK)
        st = kvr_st_get_shaped(out->file, "v", 3, e.kv, &v);
    if (st == KVR_OK)
        st = kvr_st_get_shaped(out->file, "hidden", 2, e.hidden, &hidden);
    if (st == KVR_OK && (k.dtype != KVR_BF16 || v.dtype != KVR_BF16 || hidden.dtype != KVR_F32))
        st = kvr_fail(KVR_EFORMAT,
                      "%s: the data types of tensors 'k', 'v' and 'hidden' are %s, %s and %s, need "
                      "BF16, BF16 and F32; delete the file, and kvreel computes it again",
                      path, kvr_dtype_name(k.dtype), kvr_dtype_name(v.dtype),
                      kvr_dtype_name(hidden.dtype));
    if (st != KVR_OK) {
        kvr_teacher_free(out);
        return st;
    }
    out->k = k.data;
    out->v = v.data;
    out->hidden = hidden.data;
    out->n = n;
    return KVR_OK;
}

static enum kvr_status write_file(const struct kvr_model *m, const struct kvr_teacher *t,
                                  const char *path)
{
    const struct extents e = extents_of(m, t->n);
    struct kvr_st_item item[3] = {
        { "k", { .data = t->k, .dtype = KVR_BF16, .n_dims = 3 } },
        { "v", { .data = t->v, .dtype = KVR_BF16, .n_dims = 3 } },
        { "hidden", { .data = t->hidden, .dtype = KVR_F32, .n_dims = 2 } },
    };
    char *dir = kvr_path_dir(path);
    enum kvr_status st = dir ? kvr_mkdirs(dir) : kvr_fail(KVR_ENOMEM, "text: out of memory");

    free(dir);
    memcpy(item[0].t.shape, e.kv, sizeof e.kv);
    memcpy(item[1].t.shape, e.kv, sizeof e.kv);
    memcpy(item[2].t.shape, e.hidden, sizeof e.hidden);
    return st == KVR_OK ? kvr_st_write(path, item, 3, NULL) : st;
}

/* --- the forward ------------------------------------------------------------------------ */

struct keeper {
    struct kvr_teacher *t;
    size_t width;   /* number of values in a token's keys */
    int at, n_here; /* current chunk: index of its first token, number of tokens */
};

static void keep(void *ctx, int layer, const float *k, const float *v)
{
    const struct keeper *x = ctx;
    const size_t to = ((size_t)layer * (size_t)x->t->n + (size_t)x->at) * x->width;

    kvr_from_f32(x->t->k + to, KVR_BF16, k, (size_t)x->n_here * x->width);
    kvr_from_f32(x->t->v + to, KVR_BF16, v, (size_t)x->n_here * x->width);
}

static enum kvr_status read_through(struct kvr_lm *lm, struct kvr_cache *cache, const int32_t *ids,
                                    int dim, struct keeper *x)
{
    kvr_lm_keep(lm, keep, x);
    for (x->at = 0; x->at < x->t->n; x->at += CHUNK) {
        x->n_here = x->t->n - x->at < CHUNK ? x->t->n - x->at : CHUNK;
        const struct kvr_pass pass = { .chunk = x->at / CHUNK,
                                       .frame0 = x->at,
                                       .n_frames = x->n_here,
                                       .index = 0,
                                       .clean = true };

        KVR_TRY(kvr_cache_begin_pass(cache, &pass));
        KVR_TRY(kvr_lm_forward(lm, cache, ids + x->at, &pass,
                               x->t->hidden + (size_t)x->at * (size_t)dim));
        KVR_TRY(kvr_cache_end_pass(cache));
    }
    return KVR_OK;
}

static enum kvr_status make(struct kvr_dev *dev, struct kvr_model *m, const int32_t *ids,
                            struct kvr_teacher *t)
{
    struct kvr_cache_shape shape = kvr_lm_cache_shape(m, CHUNK);
    struct keeper x = { .t = t, .width = (size_t)shape.n_kv_heads * (size_t)shape.head_dim };
    struct kvr_scheme *scheme = NULL;
    struct kvr_cache *cache = NULL;
    struct kvr_lm *lm = NULL;
    enum kvr_status st = kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0);

    shape.capacity_frames = t->n;
    shape.exact = KVR_BF16;
    if (st == KVR_OK)
        st = kvr_cache_open(&cache, dev, scheme, &shape, KVR_PATH_STAGED);
    if (st == KVR_OK)
        st = kvr_lm_open(&lm, dev, m, CHUNK);
    if (st == KVR_OK)
        st = read_through(lm, cache, ids, kvr_model_config(m)->dim, &x);
    kvr_lm_close(&lm);
    kvr_cache_close(&cache);
    kvr_scheme_close(&scheme);
    return st;
}

enum kvr_status kvr_text_teacher(struct kvr_dev *dev, struct kvr_model *m,
                                 const struct kvr_tokens *t, int n, const char *path,
                                 struct kvr_teacher *out)
{
    const struct extents e = extents_of(m, n);
    const size_t kv = (size_t)(e.kv[0] * e.kv[1] * e.kv[2]), hidden = (size_t)(n * e.hidden[1]);
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    if (!kvr_model_is_lm(m))
        return kvr_fail(KVR_EINVAL, "text: the model generates video, need a language model");
    if (n < 2 || n > t->n)
        return kvr_fail(
            KVR_EINVAL,
            "text: %d tokens requested, need at least 2, and at most the text's %d tokens", n,
            t->n);
    if (path && kvr_path_exists(path))
        return read_file(m, n, path, out);
    out->n = n;
    out->k = malloc(kv * sizeof *out->k);
    out->v = malloc(kv * sizeof *out->v);
    out->hidden = malloc(hidden * sizeof *out->hidden);
    st =
        out->k && out->v && out->hidden
            ? make(dev, m, t->id, out)
            : kvr_fail(
                  KVR_ENOMEM,
                  "text: out of memory while allocating the teacher's keys and values of %d tokens",
                  n);
    if (st == KVR_OK && path)
        st = write_file(m, out, path);
    if (st != KVR_OK)
        kvr_teacher_free(out);
    return st;
}
