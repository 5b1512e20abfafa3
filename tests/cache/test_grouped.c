/* test_grouped.c - fewer KV heads than query heads (GQA), and causal chunks.
 *
 * Attention is compared with a direct softmax in double precision, and with a cache that stores
 * each KV head once for each of its G query heads. The second cache gives the same attention and
 * takes G times the bytes. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/rng.h"
#include "harness/device/names.h"
#include "tests/cache/read_tokens.h"
#include "tests/suite.h"

enum { H = 6, KV = 2, G = H / KV, D = 64, CHUNK = 96, CHUNKS = 3, N = CHUNK * CHUNKS };

/* Queries, keys and values of all tokens of all chunks. */
struct data {
    float *q;       /* [N,H,D] */
    float *k, *v;   /* [N,KV,D] */
    float *k6, *v6; /* [N,H,D]: KV heads repeated for each of their query heads */
};

static float *normal(size_t n, uint32_t a)
{
    float *x = malloc(n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, n, 11, KVR_RNG_TEST, a, 0, 0);
    return x;
}

static float *repeated(const float *x)
{
    float *out = malloc((size_t)N * H * D * sizeof *out);

    ck_assert_ptr_nonnull(out);
    for (int t = 0; t < N; t++)
        for (int h = 0; h < H; h++)
            memcpy(out + (t * H + h) * D, x + (t * KV + h / G) * D, D * sizeof *out);
    return out;
}

static struct data data_make(void)
{
    struct data a = { normal((size_t)N * H * D, 0), normal((size_t)N * KV * D, 1),
                      normal((size_t)N * KV * D, 2), NULL, NULL };

    for (size_t i = 0; i < (size_t)N * KV * D; i++) {
        a.k[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(a.k[i]));
        a.v[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(a.v[i]));
    }
    a.k6 = repeated(a.k);
    a.v6 = repeated(a.v);
    return a;
}

static void data_free(struct data *a)
{
    free(a->q);
    free(a->k);
    free(a->v);
    free(a->k6);
    free(a->v6);
}

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
};

static struct kvr_cache_shape shape_of(int n_kv_heads, bool causal)
{
    return (struct kvr_cache_shape){
        .n_layers = 1,
        .n_heads = H,
        .n_kv_heads = n_kv_heads,
        .head_dim = D,
        .tokens_per_frame = 1,
        .frames_per_chunk = CHUNK,
        .capacity_frames = N,
        .exact = KVR_F32,
        .causal = causal,
    };
}

static void kit_open(struct kit *k, const char *method, int n_kv_heads, bool causal,
                     enum kvr_path path, enum kvr_attend_as as)
{
    struct kvr_cache_shape shape = shape_of(n_kv_heads, causal);

    shape.attend = as;
    memset(k, 0, sizeof *k);
    ck_assert_int_eq(kvr_dev_open(&k->dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&k->scheme, method, NULL, 0), KVR_OK);
    ck_assert_msg(kvr_cache_open(&k->cache, k->dev, k->scheme, &shape, path) == KVR_OK, "%s",
                  kvr_error());
}

static void kit_close(struct kit *k)
{
    kvr_cache_close(&k->cache);
    kvr_scheme_close(&k->scheme);
    kvr_dev_close(&k->dev);
}

/* Attends to each chunk and stores it. Writes out [N,H,D]. Unless `past` is NULL, writes to past
 * [N,H] the sum of each query's attention weights on earlier chunks. */
static void run(struct kit *k, const float *q, const float *key, const float *v, int kv_heads,
                float *out, float *past)
{
    for (int i = 0; i < CHUNKS; i++) {
        const struct kvr_pass pass = {
            .chunk = i, .frame0 = i * CHUNK, .n_frames = CHUNK, .index = 0, .clean = true
        };
        const size_t from = (size_t)i * CHUNK;

        if (past)
            ck_assert_int_eq(kvr_cache_collect_past_share(k->cache, past + from * H), KVR_OK);
        ck_assert_int_eq(kvr_cache_begin_pass(k->cache, &pass), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(k->cache, 0, key + from * (size_t)(kv_heads * D),
                                          v + from * (size_t)(kv_heads * D)),
                         KVR_OK);
        ck_assert_msg(kvr_cache_attend(k->cache, 0, q + from * H * D, out + from * H * D) == KVR_OK,
                      "%s", kvr_error());
        ck_assert_int_eq(kvr_cache_end_pass(k->cache), KVR_OK);
    }
}

/* Computes the attention of query (t, h) over tokens [0, n) in double precision. Writes out [D] and
 * returns the sum of the weights of tokens before `chunk0`. */
static double direct(const struct data *a, int t, int h, int n, int chunk0, double *out)
{
    double *p = malloc((size_t)n * sizeof *p), top = -INFINITY, sum = 0, past = 0;

    ck_assert_ptr_nonnull(p);
    for (int j = 0; j < n; j++) {
        p[j] = 0;
        for (int c = 0; c < D; c++)
            p[j] += (double)a->q[(t * H + h) * D + c] * a->k[(j * KV + h / G) * D + c];
        p[j] /= sqrt(D);
        top = fmax(top, p[j]);
    }
    memset(out, 0, D * sizeof *out);
    for (int j = 0; j < n; j++) {
        p[j] = exp(p[j] - top);
        sum += p[j];
        past += j < chunk0 ? p[j] : 0;
        for (int c = 0; c < D; c++)
            out[c] += p[j] * a->v[(j * KV + h / G) * D + c];
    }
    for (int c = 0; c < D; c++)
        out[c] /= sum;
    free(p);
    return past / sum;
}

static const enum kvr_path paths[] = { KVR_PATH_STAGED, KVR_PATH_FUSED, KVR_PATH_DENSE };

/* Keys and values are BF16 numbers, which method BF16 stores exactly. Scores have magnitude up to
 * 8. As F32 sums of 64 products they have an error of at most 64 x 6e-8 x 8 = 3e-5, which becomes
 * the relative error of the weights. Outputs are weighted means, so the limit 1e-4 is enough. */
START_TEST(is_the_softmax_of_its_own_head)
{
    struct data a = data_make();
    float *out = malloc((size_t)N * H * D * sizeof *out),
          *past = malloc((size_t)N * H * sizeof *out);
    double want[D], worst = 0, worst_past = 0;
    const bool causal = _i % 2;
    struct kit k;

    kit_open(&k, "BF16", KV, causal, paths[_i / 2], KVR_ATTEND_FLOAT);
    run(&k, a.q, a.k, a.v, KV, out, causal ? past : NULL);
    for (int t = 0; t < N; t++)
        for (int h = 0; h < H; h++) {
            const int begin = t / CHUNK * CHUNK, n = causal ? t + 1 : begin + CHUNK;
            const double share = direct(&a, t, h, n, begin, want);

            for (int c = 0; c < D; c++)
                worst = fmax(worst, fabs(out[(t * H + h) * D + c] - want[c]));
            if (causal)
                worst_past = fmax(worst_past, fabs(past[t * H + h] - share));
        }
    ck_assert_msg(worst <= 1e-4, "worst %g", worst);
    if (causal)
        ck_assert_msg(worst_past <= 1e-4, "largest error of the past's weight %g", worst_past);
    kit_close(&k);
    free(past);
    free(out);
    data_free(&a);
}
END_TEST

static const char *const methods[] = { "BF16",           "RTN_INT4",        "RTN_INT2+taylor",
                                       "RTN_INT2+exact", "RTN_INT2+flat",   "KIVI_INT2+energy",
                                       "QUAROT_KV_INT4", "KIVI_INT2+taylor" };
enum { N_METHODS = sizeof methods / sizeof *methods };

/* Codes, scales and moments (key statistics for corrections) are computed per head, so both caches
 * store the same numbers. Attention divides the work into different blocks, so F32 sums of about
 * 300 terms may round differently. */
START_TEST(is_a_cache_of_repeated_heads)
{
    const enum kvr_attend_as as = _i < N_METHODS ? KVR_ATTEND_FLOAT : KVR_ATTEND_INT8;
    struct data a = data_make();
    float *out = malloc((size_t)N * H * D * sizeof *out);
    float *out6 = malloc((size_t)N * H * D * sizeof *out);
    struct kvr_cache_bytes bytes, bytes6;
    double worst = 0;
    struct kit k, k6;

    kit_open(&k, methods[_i % N_METHODS], KV, true, KVR_PATH_STAGED, as);
    kit_open(&k6, methods[_i % N_METHODS], 0, true, KVR_PATH_STAGED, as);
    run(&k, a.q, a.k, a.v, KV, out, NULL);
    run(&k6, a.q, a.k6, a.v6, H, out6, NULL);
    for (int i = 0; i < N * H * D; i++)
        worst = fmax(worst, fabs(out[i] - out6[i]));
    ck_assert_msg(worst <= 2e-5, "%s: worst %g", methods[_i % N_METHODS], worst);
    kvr_cache_bytes(k.cache, &bytes);
    kvr_cache_bytes(k6.cache, &bytes6);
    ck_assert_uint_eq(bytes.bf16 * G, bytes6.bf16);
    /* KIVI stores one scale and zero point per token for the values of all heads. */
    const size_t shared = strncmp(methods[_i % N_METHODS], "KIVI", 4) == 0 ? (size_t)N * 4 : 0;

    ck_assert_uint_eq((bytes.nominal - shared) * G, bytes6.nominal - shared);
    ck_assert_uint_eq((bytes.resident - shared) * G, bytes6.resident - shared);
    kit_close(&k);
    kit_close(&k6);
    free(out);
    free(out6);
    data_free(&a);
}
END_TEST

/* kvr_cache_commit() stores the same bytes as a clean pass with attention. */
START_TEST(a_chunk_is_stored_without_attention)
{
    struct data a = data_make();
    float *out = malloc((size_t)N * H * D * sizeof *out), *kv[2];
    const struct kvr_pass pass = {
        .chunk = 0, .frame0 = 0, .n_frames = CHUNK, .index = 0, .clean = true
    };
    const size_t n = (size_t)CHUNK * KV * D;
    struct kit k[2];

    for (int i = 0; i < 2; i++) {
        kit_open(&k[i], "RTN_INT4", KV, true, KVR_PATH_STAGED, KVR_ATTEND_FLOAT);
        ck_assert_int_eq(kvr_cache_begin_pass(k[i].cache, &pass), KVR_OK);
        /* Committing before any append fails. */
        ck_assert_int_eq(kvr_cache_commit(k[i].cache, 0), KVR_EINTERNAL);
        ck_assert_int_eq(kvr_cache_append(k[i].cache, 0, a.k, a.v), KVR_OK);
        ck_assert_int_eq(i ? kvr_cache_commit(k[i].cache, 0)
                           : kvr_cache_attend(k[i].cache, 0, a.q, out),
                         KVR_OK);
        ck_assert_int_eq(kvr_cache_end_pass(k[i].cache), KVR_OK);
        kv[i] = malloc(n * sizeof(float));
        ck_assert_int_eq(read_tokens(k[i].cache, 0, kv[i], NULL), CHUNK);
        kit_close(&k[i]);
    }
    ck_assert_mem_eq(kv[0], kv[1], n * sizeof(float));
    free(kv[0]);
    free(kv[1]);
    free(out);
    data_free(&a);
}
END_TEST

START_TEST(refuses)
{
    struct kvr_cache_shape s = shape_of(4, false);
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_dev *dev;
    float x;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &s, KVR_PATH_STAGED), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "cache: 6 query heads must be a multiple of 4 KV heads");
    s.n_kv_heads = KV;
    ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &s, KVR_PATH_STAGED), KVR_OK);
    ck_assert_int_eq(kvr_cache_collect_past_share(cache, &x), KVR_EUNSUPPORTED);
    kvr_cache_close(&cache);
    kvr_dev_close(&dev);
    if (kvr_dev_open_named(&dev, "emulated") == KVR_OK) {
        ck_assert_int_eq(kvr_cache_open(&cache, dev, scheme, &s, KVR_PATH_STAGED),
                         KVR_EUNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(kvr_error(), "only on the CPU"));
        kvr_dev_close(&dev);
    }
    kvr_scheme_close(&scheme);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grouped");
    TCase *tc = tcase_create("grouped queries, causal chunks");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, is_the_softmax_of_its_own_head, 0, 6);
    tcase_add_loop_test(tc, is_a_cache_of_repeated_heads, 0, 2 * N_METHODS);
    tcase_add_test(tc, a_chunk_is_stored_without_attention);
    tcase_add_test(tc, refuses);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
