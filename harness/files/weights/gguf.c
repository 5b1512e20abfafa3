/* gguf.c - reads header, metadata and tensors; every length is checked against the rest of the
 * file. */
#include "harness/files/weights/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/bytes.h"
#include "harness/core/utf8.h"
#include "harness/files/weights/text.h"

enum { MAX_KEYS = 1 << 16, MAX_KEY_BYTES = 1024, MAX_EXTENTS = 4, DEFAULT_ALIGNMENT = 32 };

enum type { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_TYPES };

static const struct {
    const char *name;
    int n_bytes; /* 0: variable length */
} types[N_TYPES] = {
    { "uint8", 1 },  { "int8", 1 },    { "uint16", 2 },  { "int16", 2 },  { "uint32", 4 },
    { "int32", 4 },  { "float32", 4 }, { "bool", 1 },    { "string", 0 }, { "array", 0 },
    { "uint64", 8 }, { "int64", 8 },   { "float64", 8 },
};

struct value {
    const unsigned char *key;
    size_t n_key;
    enum type type, of;        /* type: the value's type; of: element type if it is an array */
    uint64_t n;                /* number of array elements; 1 for a value that is not an array */
    const unsigned char *data; /* the value, or the first element of the array, in the file */
};

struct kvr_gguf {
    const char *where;
    struct value *values; /* sorted by key */
    size_t n;
};

struct cursor {
    const char *where;
    const unsigned char *bytes;
    size_t n, at;
};

struct placed {
    uint64_t begin, end;
};

/* refuse(c, format, ...): fails with a message that begins with the file's path and the position. */
#define refuse(c, ...)                                                                             \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: GGUF: byte %zu", (c)->where, (c)->at)

static enum kvr_status skip(struct cursor *c, uint64_t n)
{
    if (n > c->n - c->at)
        return refuse(c,
                      "the next field needs %" PRIu64
                      " bytes, but only %zu are left: the file is truncated, or a "
                      "wrong length precedes this byte",
                      n, c->n - c->at);
    c->at += n;
    return KVR_OK;
}

static enum kvr_status take(struct cursor *c, int n_bytes, uint64_t *out)
{
    KVR_TRY(skip(c, (uint64_t)n_bytes));
    *out = kvr_little_endian(c->bytes + c->at - n_bytes, n_bytes);
    return KVR_OK;
}

static enum kvr_status take_string(struct cursor *c, const unsigned char **out, size_t *n)
{
    uint64_t len;

    KVR_TRY(take(c, 8, &len));
    KVR_TRY(skip(c, len));
    *out = c->bytes + c->at - len;
    *n = (size_t)len;
    return KVR_OK;
}

static enum kvr_status take_name(struct cursor *c, const unsigned char **out, size_t *n)
{
    KVR_TRY(take_string(c, out, n));
    if (*n == 0 || *n > MAX_KEY_BYTES || !kvr_utf8_is_n(*out, *n) || memchr(*out, 0, *n))
        return refuse(c, "a name has %zu bytes, need 1..%d bytes of UTF-8 without NUL", *n,
                      MAX_KEY_BYTES);
    return KVR_OK;
}

/* --- Metadata ------------------------------------------------------------------------------ */

static enum kvr_status skip_items(struct cursor *c, enum type t, uint64_t n)
{
    const unsigned char *s;
    uint64_t n_bytes;
    size_t len;

    if (t != STRING) {
        if (__builtin_mul_overflow(n, (uint64_t)types[t].n_bytes, &n_bytes))
            return refuse(c,
                          "an array of %" PRIu64
                          " elements of type %s: the size in bytes overflows 64 bits",
                          n, types[t].name);
        return skip(c, n_bytes);
    }
    for (uint64_t i = 0; i < n; i++)
        /* A string needs at least 8 bytes, so the file's size bounds the iterations. */
        KVR_TRY(take_string(c, &s, &len));
    return KVR_OK;
}

static enum kvr_status take_value(struct cursor *c, struct value *v)
{
    char shown[KVR_PRINTABLE];
    uint64_t type, of;

    KVR_TRY(take_name(c, &v->key, &v->n_key));
    KVR_TRY(take(c, 4, &type));
    of = type;
    v->n = 1;
    if (type == ARRAY) {
        KVR_TRY(take(c, 4, &of));
        KVR_TRY(take(c, 8, &v->n));
    }
    if (type >= N_TYPES || of >= N_TYPES || of == ARRAY)
        return refuse(c, "metadata key '%s': the %s has type number %" PRIu64 ", need 0..%d%s",
                      kvr_printable(shown, v->key, v->n_key),
                      type == ARRAY ? "array element" : "value", of, N_TYPES - 1,
                      type == ARRAY ? " except 9 (array)" : "");
    v->type = (enum type)type;
    v->of = (enum type)of;
    v->data = c->bytes + c->at;
    return skip_items(c, v->of, v->n);
}

static int by_key(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    int c = memcmp(x->key, y->key, x->n_key < y->n_key ? x->n_key : y->n_key);

    return c ? c : (x->n_key > y->n_key) - (x->n_key < y->n_key);
}

static enum kvr_status take_values(struct cursor *c, struct kvr_gguf *g, uint64_t n)
{
    char shown[KVR_PRINTABLE];

    if (n > MAX_KEYS || n > (c->n - c->at) / 12)
        return refuse(
            c,
            "the file declares %" PRIu64
            " metadata keys; the limit is %d, and the bytes that follow can contain at most %zu",
            n, MAX_KEYS, (c->n - c->at) / 12);
    g->values = calloc((size_t)n + 1, sizeof *g->values);
    if (!g->values)
        return kvr_fail(KVR_ENOMEM, "%s: GGUF: out of memory while allocating its metadata",
                        c->where);
    for (; g->n < n; g->n++)
        KVR_TRY(take_value(c, &g->values[g->n]));
    qsort(g->values, g->n, sizeof *g->values, by_key);
    for (size_t i = 1; i < g->n; i++)
        if (by_key(&g->values[i - 1], &g->values[i]) == 0)
            return kvr_fail(KVR_EFORMAT, "%s: GGUF: metadata key '%s' occurs twice", c->where,
                            kvr_printable(shown, g->values[i].key, g->values[i].n_key));
    return KVR_OK;
}

/* --- Tensors ------------------------------------------------------------------------------- */

/* refuse_tensor(c, name, n, format, ...): fails with a message that names the tensor. */
#define refuse_tensor(c, name, n, ...)                                                             \
    kvr_fail_prefix(kvr_fail(KVR_EFORMAT, __VA_ARGS__), "%s: GGUF: tensor '%s'", (c)->where,       \
                    kvr_printable((char[KVR_PRINTABLE]){ 0 }, name, n))

static enum kvr_status take_type(struct cursor *c, struct kvr_weight *w, const void *name,
                                 size_t n_name)
{
    const struct kvr_gguf_type *t;
    char shown[KVR_PRINTABLE];
    uint64_t number;

    KVR_TRY(take(c, 4, &number));
    t = kvr_gguf_type_find((uint32_t)number);
    if (!t)
        return kvr_fail(KVR_EFORMAT, "%s: GGUF: tensor '%s': unknown type %" PRIu64, c->where,
                        kvr_printable(shown, name, n_name), number);
    if (t->dtype == KVR_N_DTYPES && !t->blocks)
        return kvr_fail(KVR_EUNSUPPORTED, "%s: GGUF: tensor '%s': type %s is not supported",
                        c->where, kvr_printable(shown, name, n_name), t->name);
    w->dtype = t->dtype;
    w->blocks = t->blocks;
    return KVR_OK;
}

/* Reads one tensor's description. *offset is relative to the start of the file's data section,
 * which follows all descriptions. */
static enum kvr_status take_tensor(struct cursor *c, struct kvr_weight_list *l, uint64_t *offset)
{
    const unsigned char *name;
    struct kvr_weight w = { 0 };
    uint64_t n_dims, extent;
    int64_t stride = 1, n;
    size_t n_name;
    char shape[96];

    KVR_TRY(take_name(c, &name, &n_name));
    KVR_TRY(take(c, 4, &n_dims));
    if (n_dims < 1 || n_dims > MAX_EXTENTS)
        return refuse_tensor(c, name, n_name, "has %" PRIu64 " dimensions, need 1..%d", n_dims,
                             MAX_EXTENTS);
    w.n_dims = (int)n_dims;
    for (int i = w.n_dims - 1; i >= 0; i--) {
        KVR_TRY(take(c, 8, &extent));
        w.shape[i] = extent > INT64_MAX ? -1 : (int64_t)extent;
    }
    KVR_TRY(take_type(c, &w, name, n_name));
    KVR_TRY(take(c, 8, offset));
    if (!kvr_shape_count(w.shape, w.n_dims, &n))
        return refuse_tensor(c, name, n_name, "shape %s: the number of elements overflows 63 bits",
                             kvr_shape_text(w.shape, w.n_dims, shape, sizeof shape));
    if (w.blocks && w.shape[w.n_dims - 1] % w.blocks->n != 0)
        return refuse_tensor(
            c, name, n_name,
            "the row length %" PRId64
            " is not a multiple of %d, the number of elements of a quantization block of type %s",
            w.shape[w.n_dims - 1], (int)w.blocks->n, kvr_weight_type(&w));
    for (int i = w.n_dims - 1; i >= 0; i--) {
        w.stride[i] = stride;
        stride *= w.shape[i] ? w.shape[i] : 1;
    }
    return kvr_weight_list_add(l, name, n_name, &w);
}

static int by_begin(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static enum kvr_status locate(const struct cursor *c, struct kvr_weight_list *l,
                              const uint64_t *offsets, uint64_t alignment, struct placed *places)
{
    uint64_t start = (c->at + alignment - 1) / alignment * alignment, n_data;

    n_data = start <= c->n ? c->n - start : 0;
    for (int i = 0; i < l->n; i++) {
        struct kvr_weight *w = &l->w[i];
        uint64_t n = (uint64_t)w->n_bytes;

        if (offsets[i] % alignment != 0)
            return refuse_tensor(c, w->name, strlen(w->name),
                                 "the data is not aligned: offset %" PRIu64
                                 " is not a multiple of %" PRIu64
                                 " (general.alignment, default %d)",
                                 offsets[i], alignment, DEFAULT_ALIGNMENT);
        if (offsets[i] > n_data || n > n_data - offsets[i])
            return refuse_tensor(c, w->name, strlen(w->name),
                                 "the tensor's data ends beyond the file: %" PRIu64
                                 " bytes at offset %" PRIu64 " of a data section of %" PRIu64
                                 " bytes",
                                 n, offsets[i], n_data);
        w->data = n ? c->bytes + start + offsets[i] : c->bytes;
        places[i] = (struct placed){ offsets[i], offsets[i] + n };
    }
    qsort(places, (size_t)l->n, sizeof *places, by_begin);
    for (int i = 1; i < l->n; i++)
        if (places[i].begin < places[i - 1].end)
            return kvr_fail(KVR_EFORMAT,
                            "%s: GGUF: the data of two tensors overlap at byte %" PRIu64
                            " of the data section",
                            c->where, places[i].begin);
    return KVR_OK;
}

static enum kvr_status read_alignment(const struct kvr_gguf *g, uint64_t *out)
{
    int64_t x = DEFAULT_ALIGNMENT;

    *out = DEFAULT_ALIGNMENT;
    if (kvr_gguf_has(g, "general.alignment"))
        KVR_TRY(kvr_gguf_int(g, "general.alignment", &x));
    if (x < 1 || x > 1 << 20 || (x & (x - 1)) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: GGUF: general.alignment is %" PRId64
                        ", need a power of two up to 2^20",
                        g->where, x);
    *out = (uint64_t)x;
    return KVR_OK;
}

static enum kvr_status take_tensors(struct cursor *c, const struct kvr_gguf *g,
                                    struct kvr_weight_list *l, uint64_t n)
{
    uint64_t *offsets, alignment;
    struct placed *places;
    enum kvr_status st;

    KVR_TRY(read_alignment(g, &alignment));
    if (n > KVR_WEIGHTS_MAX || n > (c->n - c->at) / 24)
        return refuse(
            c,
            "the file declares %" PRIu64
            " tensors; the limit is %d, and the bytes that follow can contain at most %zu",
            n, KVR_WEIGHTS_MAX, (c->n - c->at) / 24);
    offsets = calloc((size_t)n + 1, sizeof *offsets);
    places = calloc((size_t)n + 1, sizeof *places);
    st = offsets && places
             ? KVR_OK
             : kvr_fail(KVR_ENOMEM, "%s: GGUF: out of memory while allocating its tensors",
                        c->where);
    for (uint64_t i = 0; st == KVR_OK && i < n; i++)
        st = take_tensor(c, l, &offsets[i]);
    if (st == KVR_OK)
        st = locate(c, l, offsets, alignment, places);
    if (st == KVR_OK)
        st = kvr_weight_list_finish(l);
    free(offsets);
    free(places);
    return st;
}

static enum kvr_status read_all(struct cursor *c, struct kvr_gguf *g, struct kvr_weight_list *l)
{
    uint64_t version, n_tensors, n_values;

    if (c->n < 4 || memcmp(c->bytes, "GGUF", 4) != 0)
        return refuse(c, "the file does not begin with the letters GGUF");
    c->at = 4;
    KVR_TRY(take(c, 4, &version));
    if (version != 2 && version != 3)
        return kvr_fail(KVR_EFORMAT,
                        "%s: GGUF: the format version is %" PRIu64
                        ", need 2 or 3 in little-endian byte order",
                        c->where, version);
    KVR_TRY(take(c, 8, &n_tensors));
    KVR_TRY(take(c, 8, &n_values));
    KVR_TRY(take_values(c, g, n_values));
    return take_tensors(c, g, l, n_tensors);
}

enum kvr_status kvr_gguf_read(struct kvr_gguf **out, struct kvr_weight_list *l, const char *where,
                              const unsigned char *bytes, size_t n)
{
    struct cursor c = { .where = where, .bytes = bytes, .n = n };
    struct kvr_gguf *g = calloc(1, sizeof *g);
    enum kvr_status st;

    *out = NULL;
    *l = (struct kvr_weight_list){ .where = where, .file_bytes = n };
    if (!g)
        return kvr_fail(KVR_ENOMEM, "%s: GGUF: out of memory", where);
    g->where = where;
    st = read_all(&c, g, l);
    if (st != KVR_OK) {
        kvr_weight_list_free(l);
        kvr_gguf_free(&g);
    }
    *out = g;
    return st;
}

void kvr_gguf_free(struct kvr_gguf **g)
{
    if (!*g)
        return;
    free((*g)->values);
    free(*g);
    *g = NULL;
}

/* --- Getters ------------------------------------------------------------------------------- */

static const struct value *lookup(const struct kvr_gguf *g, const char *key)
{
    const struct value want = { .key = (const unsigned char *)key, .n_key = strlen(key) };

    return g->n ? bsearch(&want, g->values, g->n, sizeof *g->values, by_key) : NULL;
}

bool kvr_gguf_has(const struct kvr_gguf *g, const char *key)
{
    return lookup(g, key) != NULL;
}

static enum kvr_status find(const struct kvr_gguf *g, const char *key, bool array,
                            const struct value **out)
{
    const struct value *v = lookup(g, key);

    *out = NULL;
    if (!v)
        return kvr_fail(KVR_ENOTFOUND, "%s: GGUF: metadata key %s is missing", g->where, key);
    if ((v->type == ARRAY) != array)
        return kvr_fail(KVR_EFORMAT, "%s: GGUF: metadata key %s must %sbe an array", g->where, key,
                        array ? "" : "not ");
    *out = v;
    return KVR_OK;
}

static enum kvr_status fail_type(const struct kvr_gguf *g, const char *key, const struct value *v,
                                 const char *want)
{
    return kvr_fail(KVR_EFORMAT, "%s: GGUF: metadata key %s has type %s, need %s", g->where, key,
                    types[v->of].name, want);
}

static bool is_int(enum type t)
{
    return t == U8 || t == I8 || t == U16 || t == I16 || t == U32 || t == I32 || t == U64 ||
           t == I64;
}

/* Reads an integer of any type; false: it does not fit into int64_t. */
static bool int_at(enum type t, const unsigned char *p, int64_t *out)
{
    const int bits = 8 * types[t].n_bytes;
    uint64_t x = kvr_little_endian(p, types[t].n_bytes);

    if ((t == I8 || t == I16 || t == I32) && x >> (bits - 1) & 1)
        x |= UINT64_MAX << bits;
    if (t == U64 && x > INT64_MAX)
        return false;
    *out = (int64_t)x;
    return true;
}

static bool real_at(enum type t, const unsigned char *p, double *out)
{
    uint64_t bits = kvr_little_endian(p, types[t].n_bytes);
    int64_t i;

    if (t == F32) {
        *out = kvr_bits_f32((uint32_t)bits);
        return true;
    }
    if (t == F64) {
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    if (!is_int(t) || !int_at(t, p, &i))
        return false;
    *out = (double)i;
    return true;
}

enum kvr_status kvr_gguf_int(const struct kvr_gguf *g, const char *key, int64_t *out)
{
    const struct value *v;

    KVR_TRY(find(g, key, false, &v));
    return is_int(v->type) && int_at(v->type, v->data, out) ? KVR_OK
                                                            : fail_type(g, key, v, "an int64");
}

enum kvr_status kvr_gguf_real(const struct kvr_gguf *g, const char *key, double *out)
{
    const struct value *v;

    KVR_TRY(find(g, key, false, &v));
    if (v->type == STRING || v->type == BOOL || !real_at(v->type, v->data, out))
        return fail_type(g, key, v, "a number");
    return KVR_OK;
}

enum kvr_status kvr_gguf_bool(const struct kvr_gguf *g, const char *key, bool *out)
{
    const struct value *v;

    KVR_TRY(find(g, key, false, &v));
    if (v->type != BOOL)
        return fail_type(g, key, v, "a bool");
    *out = *v->data != 0;
    return KVR_OK;
}

enum kvr_status kvr_gguf_text(const struct kvr_gguf *g, const char *key,
                              struct kvr_gguf_string *out)
{
    const struct value *v;

    KVR_TRY(find(g, key, false, &v));
    if (v->type != STRING)
        return fail_type(g, key, v, "a string");
    *out = (struct kvr_gguf_string){ (const char *)v->data + 8,
                                     (size_t)kvr_little_endian(v->data, 8) };
    return KVR_OK;
}

enum kvr_status kvr_gguf_texts(const struct kvr_gguf *g, const char *key,
                               struct kvr_gguf_string **out, size_t *n)
{
    const unsigned char *p;
    struct kvr_gguf_string *a;
    const struct value *v;

    KVR_TRY(find(g, key, true, &v));
    if (v->of != STRING)
        return fail_type(g, key, v, "an array of strings");
    a = calloc(v->n + 1, sizeof *a);
    if (!a)
        return kvr_fail(KVR_ENOMEM,
                        "%s: GGUF: %s: out of memory while allocating %" PRIu64 " strings",
                        g->where, key, v->n);
    p = v->data;
    for (uint64_t i = 0; i < v->n; i++) {
        a[i] = (struct kvr_gguf_string){ (const char *)p + 8, (size_t)kvr_little_endian(p, 8) };
        p += 8 + a[i].n;
    }
    *out = a;
    *n = (size_t)v->n;
    return KVR_OK;
}

enum kvr_status kvr_gguf_reals(const struct kvr_gguf *g, const char *key, double **out, size_t *n)
{
    const struct value *v;
    double *a;

    KVR_TRY(find(g, key, true, &v));
    if (v->of == STRING || v->of == BOOL)
        return fail_type(g, key, v, "an array of numbers");
    a = calloc(v->n + 1, sizeof *a);
    if (!a)
        return kvr_fail(KVR_ENOMEM,
                        "%s: GGUF: %s: out of memory while allocating %" PRIu64 " numbers",
                        g->where, key, v->n);
    for (uint64_t i = 0; i < v->n; i++)
        if (!real_at(v->of, v->data + i * (uint64_t)types[v->of].n_bytes, &a[i])) {
            free(a);
            return fail_type(g, key, v, "an array of numbers");
        }
    *out = a;
    *n = (size_t)v->n;
    return KVR_OK;
}
