/* test_gguf.c - GGUF files: metadata, blocks compared with ggml's decoder, malformed files. */
#include <string.h>

#include "harness/files/weights/weights.h"
#include "tests/suite.h"
#include "tests/files/files.h"

/* A GGUF file under construction. */
struct maker {
    unsigned char b[1 << 14];
    size_t n;
};

static void put(struct maker *m, uint64_t x, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        m->b[m->n++] = (unsigned char)(x >> (8 * i));
}

static void put_text(struct maker *m, const char *s)
{
    put(m, strlen(s), 8);
    memcpy(m->b + m->n, s, strlen(s));
    m->n += strlen(s);
}

static void put_key(struct maker *m, const char *key, uint32_t type)
{
    put_text(m, key);
    put(m, type, 4);
}

static void put_tensor(struct maker *m, const char *name, uint64_t width, uint64_t rows,
                       uint32_t type, uint64_t offset)
{
    put_text(m, name);
    put(m, 2, 4);
    put(m, width, 8);
    put(m, rows, 8);
    put(m, type, 4);
    put(m, offset, 8);
}

static void align(struct maker *m)
{
    while (m->n % 32)
        m->b[m->n++] = 0;
}

enum { N_VALUES = 10 };

static void begin(struct maker *m, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    m->n = 0;
    memcpy(m->b, "GGUF", 4);
    m->n = 4;
    put(m, version, 4);
    put(m, n_tensors, 8);
    put(m, n_keys, 8);
}

/* Builds a valid file: one metadata value of most types, a Q8_0 tensor of 2 rows, and an F16
 * tensor. */
static void make_good(struct maker *m)
{
    begin(m, 3, 2, N_VALUES);
    put_key(m, "general.architecture", 8);
    put_text(m, "llama");
    put_key(m, "a.u32", 4);
    put(m, 4000000000u, 4);
    put_key(m, "a.i8", 1);
    put(m, 0xfe, 1);
    put_key(m, "a.i64", 11);
    put(m, (uint64_t)-5, 8);
    put_key(m, "a.f32", 6);
    put(m, kvr_f32_bits(1e-5f), 4);
    put_key(m, "a.bool", 7);
    put(m, 1, 1);
    put_key(m, "a.u64", 10);
    put(m, UINT64_MAX, 8);
    put_key(m, "a.words", 9);
    put(m, 8, 4);
    put(m, 3, 8);
    put_text(m, "one");
    put_text(m, "");
    put_text(m, "three");
    put_key(m, "a.scores", 9);
    put(m, 3, 4);
    put(m, 2, 8);
    put(m, 7, 2);
    put(m, 0xffff, 2);
    put_key(m, "a.none", 9);
    put(m, 8, 4);
    put(m, 0, 8);
    put_tensor(m, "blk.0.attn_q.weight", 32, 2, 8, 0);
    put_tensor(m, "half", 3, 1, 1, 96);
    align(m);
    for (int row = 0; row < 2; row++) {
        put(m, 0x3800, 2); /* 0.5 */
        for (int i = 0; i < 32; i++)
            put(m, (uint64_t)(row ? -i : i), 1);
    }
    align(m);
    put(m, 0x3c00, 2);
    put(m, 0xc000, 2);
    put(m, 0x7c00, 2);
}

/* Opens a copy of b [n] in an allocation of exactly n bytes, so that a sanitizer detects reads
 * beyond it. */
static enum kvr_status open_copy(struct kvr_weights **w, unsigned char **copy, const void *b,
                                 size_t n)
{
    *copy = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(*copy);
    memcpy(*copy, b, n);
    return kvr_weights_open_memory(w, *copy, n, "made");
}

START_TEST(metadata_is_typed)
{
    struct kvr_gguf_string text, *words;
    const struct kvr_gguf *g;
    struct kvr_weights *w;
    unsigned char *copy;
    struct maker m;
    double x, *reals;
    int64_t i;
    size_t n;
    bool yes;

    make_good(&m);
    ck_assert_int_eq(open_copy(&w, &copy, m.b, m.n), KVR_OK);
    ck_assert_int_eq(kvr_weights_format(w), KVR_WEIGHTS_GGUF);
    g = kvr_weights_gguf(w);
    ck_assert_int_eq(kvr_gguf_text(g, "general.architecture", &text), KVR_OK);
    ck_assert_uint_eq(text.n, 5);
    ck_assert_mem_eq(text.text, "llama", 5);
    ck_assert_int_eq(kvr_gguf_int(g, "a.u32", &i), KVR_OK);
    ck_assert_int_eq(i, 4000000000);
    ck_assert_int_eq(kvr_gguf_int(g, "a.i8", &i), KVR_OK);
    ck_assert_int_eq(i, -2);
    ck_assert_int_eq(kvr_gguf_int(g, "a.i64", &i), KVR_OK);
    ck_assert_int_eq(i, -5);
    ck_assert_int_eq(kvr_gguf_real(g, "a.f32", &x), KVR_OK);
    ck_assert(x == (double)1e-5f);
    ck_assert_int_eq(kvr_gguf_real(g, "a.i8", &x), KVR_OK);
    ck_assert(x == -2);
    ck_assert_int_eq(kvr_gguf_bool(g, "a.bool", &yes), KVR_OK);
    ck_assert(yes);
    ck_assert_int_eq(kvr_gguf_texts(g, "a.words", &words, &n), KVR_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(words[1].n, 0);
    ck_assert_mem_eq(words[2].text, "three", 5);
    free(words);
    ck_assert_int_eq(kvr_gguf_texts(g, "a.none", &words, &n), KVR_OK);
    ck_assert_uint_eq(n, 0);
    free(words);
    ck_assert_int_eq(kvr_gguf_reals(g, "a.scores", &reals, &n), KVR_OK);
    ck_assert(n == 2 && reals[0] == 7 && reals[1] == -1);
    free(reals);
    ck_assert_int_eq(kvr_gguf_int(g, "a.u64", &i), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_int(g, "a.f32", &i), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_int(g, "a.words", &i), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_reals(g, "a.words", &reals, &n), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_texts(g, "a.f32", &words, &n), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_bool(g, "a.u32", &yes), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_text(g, "a.u32", &text), KVR_EFORMAT);
    ck_assert_int_eq(kvr_gguf_int(g, "a.nothing", &i), KVR_ENOTFOUND);
    kvr_weights_close(&w);
    free(copy);
}
END_TEST

START_TEST(tensors_are_rows)
{
    struct kvr_weights *w;
    const struct kvr_weight *t;
    unsigned char *copy;
    struct maker m;
    float x[64];
    int64_t bad;

    make_good(&m);
    ck_assert_int_eq(open_copy(&w, &copy, m.b, m.n), KVR_OK);
    t = kvr_weights_find(w, "blk.0.attn_q.weight");
    ck_assert_ptr_nonnull(t);
    ck_assert(t->n_dims == 2 && t->shape[0] == 2 && t->shape[1] == 32 && t->n_bytes == 68);
    ck_assert_str_eq(kvr_weight_type(t), "Q8_0");
    ck_assert_int_eq(kvr_weight_f32(t, 0, 64, x), KVR_OK);
    for (int i = 0; i < 32; i++)
        ck_assert(x[i] == 0.5f * (float)i && x[32 + i] == -0.5f * (float)i);
    ck_assert_int_eq(kvr_weight_f32(t, 32, 32, x), KVR_OK);
    ck_assert(x[1] == -0.5f);
    t = kvr_weights_find(w, "half");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(kvr_weight_f32(t, 1, 1, x), KVR_OK);
    ck_assert(x[0] == -2);
    ck_assert_int_eq(kvr_weight_nonfinite(t, &bad), KVR_OK);
    ck_assert_int_eq(bad, 1);
    kvr_weights_close(&w);
    free(copy);
}
END_TEST

/* The file has quantized blocks and their values from ggml's to_float (tools/peers/ggml_blocks.py).
 * kvreel must decode the blocks to the same bits. */
START_TEST(blocks_decode_as_ggml_does)
{
    static const char *const names[] = { "Q4_0", "Q4_1", "Q5_1", "Q8_0", "Q4_K", "Q6_K" };
    enum { N = 3 * 256 };
    char other[16];
    struct kvr_weights *w;
    float x[N], want[N];

    ck_assert_int_eq(kvr_weights_open(&w, "tests/fixtures/gguf/blocks.gguf"), KVR_OK);
    ck_assert_int_eq(kvr_weights_count(w), 12);
    for (size_t i = 0; i < 6; i++) {
        const struct kvr_weight *t = kvr_weights_find(w, names[i]);

        snprintf(other, sizeof other, "%s.f32", names[i]);
        ck_assert_ptr_nonnull(t);
        ck_assert_ptr_eq(t->blocks, kvr_quant_find(names[i]));
        ck_assert_int_eq(kvr_weight_f32(t, 0, N, x), KVR_OK);
        ck_assert_int_eq(kvr_weight_f32(kvr_weights_find(w, other), 0, N, want), KVR_OK);
        for (int j = 0; j < N; j++)
            ck_assert_msg(x[j] == want[j], "%s[%d]: %.9g, ggml has %.9g", names[i], j, (double)x[j],
                          (double)want[j]);
    }
    kvr_weights_close(&w);
}
END_TEST

static void refused(const struct maker *m, const char *why)
{
    struct kvr_weights *w;
    unsigned char *copy;

    ck_assert_msg(open_copy(&w, &copy, m->b, m->n) != KVR_OK, "loads, want '%s'", why);
    ck_assert_msg(strstr(kvr_error(), why), "'%s' does not say '%s'", kvr_error(), why);
    ck_assert_ptr_null(w);
    free(copy);
}

/* A file with one tensor and 16 bytes of data, enough for F32 [1, 4]. */
static void one(struct maker *m, const char *name, uint64_t width, uint64_t rows, uint32_t type,
                uint64_t offset)
{
    begin(m, 3, 1, 0);
    put_tensor(m, name, width, rows, type, offset);
    align(m);
    put(m, 0, 8);
    put(m, 0, 8);
}

START_TEST(invalid_metadata_is_refused)
{
    struct maker m;

    begin(&m, 1, 0, 0);
    refused(&m, "version is 1");
    begin(&m, 3, 0, 0);
    refused(&m, "no tensors");
    begin(&m, 3, 0, UINT64_MAX);
    refused(&m, "metadata");
    begin(&m, 3, UINT64_MAX, 0);
    refused(&m, "tensors; the limit is 65536");
    begin(&m, 3, 0, 1);
    put(&m, UINT64_MAX, 8);
    put(&m, 0, 8);
    refused(&m, "wrong length");
    begin(&m, 3, 0, 1);
    put_key(&m, "a", 99);
    refused(&m, "has type number 99, need 0..12");
    begin(&m, 3, 0, 1);
    put_key(&m, "a", 9);
    put(&m, 9, 4);
    put(&m, 1, 8);
    refused(&m, "array element has type number 9, need 0..12 except 9");
    begin(&m, 3, 0, 1);
    put_key(&m, "a", 9);
    put(&m, 10, 4);
    put(&m, (uint64_t)1 << 61, 8);
    refused(&m, "overflows");
    begin(&m, 3, 0, 2);
    put_key(&m, "a", 7);
    put(&m, 1, 1);
    put_key(&m, "a", 7);
    put(&m, 1, 1);
    put(&m, 0, 8);
    refused(&m, "twice");
    begin(&m, 3, 0, 1);
    put_key(&m, "general.alignment", 4);
    put(&m, 24, 4);
    refused(&m, "power of two");
    begin(&m, 3, 0, 1);
    put_key(&m, "\xff\xfe", 7);
    put(&m, 1, 1);
    refused(&m, "UTF-8");
}
END_TEST

START_TEST(invalid_tensors_are_refused)
{
    struct maker m;

    one(&m, "a", 4, 1, 0, 0);
    ck_assert_int_eq(m.n % 32, 16);
    one(&m, "a", 5, 1, 0, 0);
    refused(&m, "ends beyond the file");
    one(&m, "a", 4, 1, 0, 32);
    refused(&m, "ends beyond the file");
    one(&m, "a", 4, 1, 0, 4);
    refused(&m, "not aligned");
    one(&m, "a", 4, 1, 0, UINT64_MAX - 31);
    refused(&m, "ends beyond the file");
    one(&m, "a", (uint64_t)1 << 62, 4, 0, 0);
    refused(&m, "overflows");
    one(&m, "a", UINT64_MAX, 1, 0, 0);
    refused(&m, "overflows");
    one(&m, "a", (uint64_t)1 << 40, 1, 0, 0);
    refused(&m, "more than the limit of 8 times");
    one(&m, "a", 33, 1, 8, 0);
    refused(&m, "elements of a quantization block");
    one(&m, "a", 256, 1, 13, 0);
    refused(&m, "Q5_K is not supported");
    one(&m, "a", 4, 1, 77, 0);
    refused(&m, "unknown type 77");
    one(&m, "echo kvreel-payload \033[31m", 4, 1, 77, 0);
    refused(&m, "'echo?kvreel?payload???31m'");
}
END_TEST

START_TEST(colliding_tensors_are_refused)
{
    struct maker m;

    begin(&m, 3, 2, 0);
    put_tensor(&m, "a", 4, 1, 0, 0);
    put_tensor(&m, "b", 4, 1, 0, 0);
    align(&m);
    put(&m, 0, 8);
    put(&m, 0, 8);
    refused(&m, "overlap");
    begin(&m, 3, 2, 0);
    put_tensor(&m, "a", 4, 1, 0, 0);
    put_tensor(&m, "a", 4, 1, 0, 32);
    align(&m);
    for (int i = 0; i < 6; i++)
        put(&m, 0, 8);
    refused(&m, "two tensors");
}
END_TEST

START_TEST(a_good_one_tensor_file_loads)
{
    struct kvr_weights *w;
    unsigned char *copy;
    struct maker m;

    one(&m, "a", 4, 1, 0, 0);
    ck_assert_int_eq(open_copy(&w, &copy, m.b, m.n), KVR_OK);
    kvr_weights_close(&w);
    free(copy);
}
END_TEST

static enum kvr_status read_all(const unsigned char *b, size_t n)
{
    unsigned char *copy;
    struct kvr_weights *w;
    enum kvr_status st = open_copy(&w, &copy, b, n);
    int64_t bad;

    for (int i = 0; st == KVR_OK && i < kvr_weights_count(w); i++)
        ck_assert_int_eq(kvr_weight_nonfinite(kvr_weights_at(w, i), &bad), KVR_OK);
    kvr_weights_close(&w);
    free(copy);
    return st;
}

START_TEST(cut_or_flipped_anywhere)
{
    struct maker m;

    make_good(&m);
    ck_assert_int_eq(read_all(m.b, m.n), KVR_OK);
    for (size_t i = 0; i < m.n; i++)
        ck_assert_msg(read_all(m.b, i) != KVR_OK, "loads when cut to %zu bytes", i);
    for (size_t i = 0; i < m.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            m.b[i] ^= (unsigned char)(1 << bit);
            read_all(m.b, m.n);
            m.b[i] ^= (unsigned char)(1 << bit);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    TCase *tc = tcase_create("files");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, metadata_is_typed);
    tcase_add_test(tc, tensors_are_rows);
    tcase_add_test(tc, blocks_decode_as_ggml_does);
    tcase_add_test(tc, invalid_metadata_is_refused);
    tcase_add_test(tc, invalid_tensors_are_refused);
    tcase_add_test(tc, colliding_tensors_are_refused);
    tcase_add_test(tc, a_good_one_tensor_file_loads);
    tcase_add_test(tc, cut_or_flipped_anywhere);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
