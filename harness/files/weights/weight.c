/* weight.c - copies ranges of a strided tensor to contiguous memory, and lists a file's tensors. */
#include "harness/files/weights/weight.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/sha256.h"
#include "harness/files/weights/text.h"

enum { PIECE_BYTES = 1 << 16 };

bool kvr_shape_count(const int64_t *shape, int n_dims, int64_t *n)
{
    bool empty = false;

    *n = 1;
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0)
            return false;
        if (shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(*n, shape[i], n))
            return false;
    }
    if (empty)
        *n = 0;
    return true;
}

const char *kvr_weight_type(const struct kvr_weight *w)
{
    return w->blocks ? w->blocks->name : kvr_dtype_name(w->dtype);
}

static bool is_floating(enum kvr_dtype t)
{
    return t == KVR_F32 || t == KVR_F64 || t == KVR_F16 || t == KVR_BF16 || t == KVR_F8_E4M3 ||
           t == KVR_F8_E5M2;
}

/* Copies elements [first, first + n) of a non-contiguous tensor, row by row. */
static void copy_strided(const struct kvr_weight *w, int64_t first, int64_t n, unsigned char *to)
{
    const size_t size = kvr_dtype_size(w->dtype);
    const int last = w->n_dims - 1;

    while (n > 0) {
        int64_t rest = first, at = 0, col = 0, row_left = 1;

        for (int d = last; d >= 0; d--) {
            int64_t i = rest % w->shape[d];

            rest /= w->shape[d];
            at += i * w->stride[d];
            if (d == last) {
                col = i;
                row_left = w->shape[d] - col;
            }
        }
        if (row_left > n)
            row_left = n;
        for (int64_t i = 0; i < row_left; i++, to += size)
            memcpy(to, w->data + (size_t)(at + i * (last >= 0 ? w->stride[last] : 0)) * size, size);
        first += row_left;
        n -= row_left;
    }
}

void kvr_weight_copy(const struct kvr_weight *w, int64_t first, int64_t n, void *to)
{
    const size_t size = kvr_dtype_size(w->dtype);

    if (n <= 0)
        return;
    if (w->contiguous)
        memcpy(to, w->data + (size_t)first * size, (size_t)n * size);
    else
        copy_strided(w, first, n, to);
}

enum kvr_status kvr_weight_f32(const struct kvr_weight *w, int64_t first, int64_t n, float *to)
{
    _Alignas(64) unsigned char piece[PIECE_BYTES];
    char shown[KVR_PRINTABLE];
    int64_t step;

    if (w->blocks) {
        w->blocks->to_f32(w->data + (size_t)(first / w->blocks->n) * w->blocks->n_bytes,
                          n / w->blocks->n, to);
        return KVR_OK;
    }
    if (!is_floating(w->dtype))
        return kvr_fail(KVR_EUNSUPPORTED, "tensor '%s': dtype is %s, need a floating-point type",
                        kvr_shown_string(shown, w->name), kvr_dtype_name(w->dtype));
    step = PIECE_BYTES / (int64_t)kvr_dtype_size(w->dtype);
    for (int64_t i = 0; i < n; i += step) {
        int64_t m = n - i < step ? n - i : step;

        kvr_weight_copy(w, first + i, m, piece);
        kvr_to_f32(to + i, piece, w->dtype, (size_t)m);
    }
    return KVR_OK;
}

enum kvr_status kvr_weight_sha256(const struct kvr_weight *w, char *hex)
{
    unsigned char piece[PIECE_BYTES];
    struct kvr_sha256 h;
    enum kvr_status st;
    int64_t step;

    KVR_TRY(kvr_sha256_open(&h));
    if (w->contiguous) {
        st = kvr_sha256_add(&h, w->n_bytes ? w->data : piece, (size_t)w->n_bytes);
    } else {
        st = KVR_OK;
        step = PIECE_BYTES / (int64_t)kvr_dtype_size(w->dtype);
        for (int64_t i = 0; st == KVR_OK && i < w->n; i += step) {
            int64_t m = w->n - i < step ? w->n - i : step;

            kvr_weight_copy(w, i, m, piece);
            st = kvr_sha256_add(&h, piece, (size_t)m * kvr_dtype_size(w->dtype));
        }
    }
    if (st == KVR_OK)
        return kvr_sha256_close(&h, hex);
    kvr_sha256_close(&h, NULL);
    return st;
}

enum kvr_status kvr_weight_nonfinite(const struct kvr_weight *w, int64_t *n)
{
    enum { STEP = 1 << 12 }; /* elements per iteration; a multiple of every type's block size */
    float x[STEP];

    *n = 0;
    if (!w->blocks && !is_floating(w->dtype))
        return KVR_OK;
    for (int64_t i = 0; i < w->n; i += STEP) {
        int64_t m = w->n - i < STEP ? w->n - i : STEP;

        KVR_TRY(kvr_weight_f32(w, i, m, x));
        for (int64_t j = 0; j < m; j++)
            *n += !(x[j] - x[j] == 0);
    }
    return KVR_OK;
}

static bool is_contiguous(const struct kvr_weight *w)
{
    int64_t want = 1;

    if (w->blocks || w->n == 0)
        return true;
    for (int d = w->n_dims - 1; d >= 0; d--) {
        if (w->shape[d] != 1 && w->stride[d] != want)
            return false;
        want *= w->shape[d];
    }
    return true;
}

static enum kvr_status fill(struct kvr_weight *w, const char *where, const char *name)
{
    char shown[KVR_PRINTABLE], shape[96];
    bool fits = kvr_shape_count(w->shape, w->n_dims, &w->n);

    w->n_bytes = w->n;
    if (w->blocks)
        w->n_bytes = w->n / w->blocks->n;
    fits = fits && !__builtin_mul_overflow(w->n_bytes,
                                           w->blocks ? (int64_t)w->blocks->n_bytes
                                                     : (int64_t)kvr_dtype_size(w->dtype),
                                           &w->n_bytes);
    if (!fits)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': shape %s has a negative dimension, or the size in bytes "
                        "overflows 63 bits",
                        where, kvr_shown_string(shown, name),
                        kvr_shape_text(w->shape, w->n_dims, shape, sizeof shape));
    w->contiguous = is_contiguous(w);
    return KVR_OK;
}

static enum kvr_status make_room(struct kvr_weight_list *l)
{
    int cap = l->cap ? 2 * l->cap : 64;
    struct kvr_weight *p;

    if (l->n < l->cap)
        return KVR_OK;
    if (l->n >= KVR_WEIGHTS_MAX)
        return kvr_fail(KVR_EFORMAT, "%s: the file has more than the limit of %d tensors", l->where,
                        KVR_WEIGHTS_MAX);
    p = realloc(l->w, (size_t)cap * sizeof *p);
    if (!p)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d tensors", l->where, cap);
    l->w = p;
    l->cap = cap;
    return KVR_OK;
}

enum kvr_status kvr_weight_list_add(struct kvr_weight_list *l, const void *name, size_t n_name,
                                    const struct kvr_weight *w)
{
    struct kvr_weight x = *w;
    char shown[KVR_PRINTABLE], *copy;
    enum kvr_status st;

    if (n_name == 0 || n_name > KVR_WEIGHT_NAME_MAX || memchr(name, 0, n_name))
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s': the name has %zu bytes, need 1..%d bytes without NUL",
                        l->where, kvr_printable(shown, name, n_name), n_name, KVR_WEIGHT_NAME_MAX);
    l->name_bytes += n_name;
    if (l->name_bytes > KVR_WEIGHTS_NAME_BYTES)
        return kvr_fail(KVR_EFORMAT,
                        "%s: all tensor names together have more than the limit of %d bytes",
                        l->where, KVR_WEIGHTS_NAME_BYTES);
    KVR_TRY(make_room(l));
    copy = strndup(name, n_name);
    if (!copy)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating a name", l->where);
    st = fill(&x, l->where, copy);
    if (st == KVR_OK && (__builtin_add_overflow(l->total, (uint64_t)x.n_bytes, &l->total) ||
                         l->total / KVR_WEIGHTS_EXPANSION > l->file_bytes))
        st = kvr_fail(KVR_EFORMAT,
                      "%s: tensor '%s': the tensors from the first to this one need %" PRIu64
                      " bytes in all, more than the limit of %d times the file's size of %" PRIu64
                      " bytes",
                      l->where, kvr_shown_string(shown, copy), l->total, KVR_WEIGHTS_EXPANSION,
                      l->file_bytes);
    if (st != KVR_OK) {
        free(copy);
        return st;
    }
    x.name = copy;
    l->w[l->n++] = x;
    return KVR_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct kvr_weight *x = *(const struct kvr_weight *const *)a;
    const struct kvr_weight *y = *(const struct kvr_weight *const *)b;

    return strcmp(x->name, y->name);
}

enum kvr_status kvr_weight_list_finish(struct kvr_weight_list *l)
{
    char shown[KVR_PRINTABLE];

    if (l->n == 0)
        return kvr_fail(KVR_EFORMAT, "%s: the file contains no tensors", l->where);
    free(l->by_name);
    l->by_name = calloc((size_t)l->n, sizeof *l->by_name);
    if (!l->by_name)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d names", l->where, l->n);
    for (int i = 0; i < l->n; i++)
        l->by_name[i] = &l->w[i];
    qsort(l->by_name, (size_t)l->n, sizeof *l->by_name, by_name);
    for (int i = 1; i < l->n; i++)
        if (strcmp(l->by_name[i - 1]->name, l->by_name[i]->name) == 0)
            return kvr_fail(KVR_EFORMAT, "%s: two tensors have the name '%s'", l->where,
                            kvr_shown_string(shown, l->by_name[i]->name));
    return KVR_OK;
}

const struct kvr_weight *kvr_weight_list_find(const struct kvr_weight_list *l, const char *name)
{
    const struct kvr_weight key = { .name = name }, *const p = &key;
    const struct kvr_weight **hit =
        l->by_name ? bsearch(&p, l->by_name, (size_t)l->n, sizeof *l->by_name, by_name) : NULL;

    return hit ? *hit : NULL;
}

void kvr_weight_list_free(struct kvr_weight_list *l)
{
    for (int i = 0; i < l->n; i++)
        free((void *)(uintptr_t)l->w[i].name);
    free(l->w);
    free(l->by_name);
    *l = (struct kvr_weight_list){ 0 };
}
