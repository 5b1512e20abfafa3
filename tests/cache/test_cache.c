/* test_cache.c - attention through the cache against a direct softmax in double precision. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/cache_impl.h"
#include "harness/core/rng.h"
#include "methods/joint.h"
#include "tests/cache/read_tokens.h"
#include "tests/threads.h"

enum { S = 15, FRAMES = 3, H = 2, CHUNK = S * FRAMES };

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    struct kvr_cache_shape shape;
};

static void kit_open(struct kit *k, const char *method, int d, int window, int sink, bool evict)
{
    memset(k, 0, sizeof *k);
    k->shape = (struct kvr_cache_shape){
        .n_layers = 2,
        .n_heads = H,
        .head_dim = d,
        .tokens_per_frame = S,
        .frames_per_chunk = FRAMES,
        .capacity_frames = 36,
        .window_frames = window,
        .sink_frames = sink,
        .evict = evict,
        .exact = KVR_F32,
    };
    ck_assert_int_eq(kvr_dev_open(&k->dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&k->scheme, method, NULL, 0), KVR_OK);
    ck_assert_msg(kvr_cache_open(&k->cache, k->dev, k->scheme, &k->shape, KVR_PATH_STAGED) ==
                      KVR_OK,
                  "%s", kvr_error());
}

static void kit_close(struct kit *k)
{
    kvr_cache_close(&k->cache);
    kvr_scheme_close(&k->scheme);
    kvr_dev_close(&k->dev);
}

static float *normal(size_t n, uint32_t a, uint32_t b)
{
    float *x = malloc(n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_normal(x, n, 7, KVR_RNG_TEST, a, b, 0);
    return x;
}

/* Runs one pass of a chunk over both layers. Queries, keys and values are drawn by (chunk,
 * layer, pass). */
static void run_pass(struct kit *k, int chunk, int index, bool clean, float *out)
{
    const size_t n = (size_t)(CHUNK * H * k->shape.head_dim);
    const struct kvr_pass pass = {
        .chunk = chunk, .frame0 = chunk * FRAMES, .n_frames = FRAMES, .index = index, .clean = clean
    };

    ck_assert_int_eq(kvr_cache_begin_pass(k->cache, &pass), KVR_OK);
    for (int l = 0; l < k->shape.n_layers; l++) {
        const uint32_t id = (uint32_t)(chunk * 100 + l * 10 + index);
        float *q = normal(n, id, 0), *kk = normal(n, id, 1), *v = normal(n, id, 2);

        ck_assert_int_eq(kvr_cache_append(k->cache, l, kk, v), KVR_OK);
        ck_assert_msg(kvr_cache_attend(k->cache, l, q, out) == KVR_OK, "%s", kvr_error());
        free(q);
        free(kk);
        free(v);
    }
    ck_assert_int_eq(kvr_cache_end_pass(k->cache), KVR_OK);
}

/* Computes softmax(q K^T / sqrt(D)) V in double precision, with K and V [n,H,D]. Returns the
 * largest absolute error of `out`. */
static double worst_error(const float *q, const float *k, const float *v, int64_t n, int d,
                          const float *out)
{
    double worst = 0, *p = malloc((size_t)n * sizeof *p);

    for (int t = 0; t < CHUNK; t++)
        for (int h = 0; h < H; h++) {
            const float *qr = q + (t * H + h) * d;
            double top = -INFINITY, sum = 0;

            for (int64_t j = 0; j < n; j++) {
                double s = 0;

                for (int c = 0; c < d; c++)
                    s += (double)qr[c] * k[(j * H + h) * d + c];
                p[j] = s / sqrt(d);
                top = fmax(top, p[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += p[j] = exp(p[j] - top);
            for (int c = 0; c < d; c++) {
                double o = 0, e;

                for (int64_t j = 0; j < n; j++)
                    o += p[j] * v[(j * H + h) * d + c];
                e = fabs(o / sum - out[(t * H + h) * d + c]);
                /* once NaN, `worst` stays NaN */
                if (worst == worst && !(e <= worst))
                    worst = e;
            }
        }
    free(p);
    return worst;
}

static const struct {
    const char *method;
    int d, window, sink, chunks;
    bool evict;
} shapes[] = {
    { "F32", 64, 0, 0, 4, false },       { "F32", 128, 6, 0, 5, false },
    { "F32", 40, 6, 1, 5, false },       { "BF16", 64, 9, 3, 6, true },
    { "RTN_INT4", 64, 0, 0, 12, false }, { "RTN_INT2", 128, 7, 2, 6, true },
    { "RTN_K2_V4", 24, 0, 0, 3, false },
};

/* Attention equals a softmax over what kvr_cache_read returns plus the current chunk, for every
 * method, window, sink and head width. F32 sums of up to 540 values of order 1 have a worst
 * error of about 1e-4. Since rounding errors average out, 2e-5 is allowed. */
START_TEST(attention_is_softmax_over_what_is_read)
{
    struct kit k;
    float *out;

    kit_open(&k, shapes[_i].method, shapes[_i].d, shapes[_i].window, shapes[_i].sink,
             shapes[_i].evict);
    const int d = k.shape.head_dim, last = shapes[_i].chunks - 1;
    const size_t n = (size_t)(CHUNK * H * d);

    out = malloc(n * sizeof *out);
    for (int c = 0; c < last; c++)
        for (int p = 0; p < 2; p++)
            run_pass(&k, c, p, p == 1, out);
    run_pass(&k, last, 0, false, out);

    int64_t past = read_tokens(k.cache, 1, NULL, NULL);
    float *kk = malloc(((size_t)past * (size_t)(H * d) + n) * sizeof *kk);
    float *vv = malloc(((size_t)past * (size_t)(H * d) + n) * sizeof *vv);
    const uint32_t id = (uint32_t)(last * 100 + 10);
    float *q = normal(n, id, 0), *ck = normal(n, id, 1), *cv = normal(n, id, 2);

    read_tokens(k.cache, 1, kk, vv);
    memcpy(kk + past * H * d, ck, n * sizeof *ck);
    memcpy(vv + past * H * d, cv, n * sizeof *cv);

    /* The window includes the sink and the current chunk. So the visible past is the window less
     * one chunk. */
    int end = (last + 1) * FRAMES, frames = end - FRAMES;
    if (shapes[_i].window && end > shapes[_i].window)
        frames = shapes[_i].window - FRAMES;
    ck_assert_int_eq(past, (int64_t)frames * S);

    double err = worst_error(q, kk, vv, past + CHUNK, d, out);
    ck_assert_msg(err <= 2e-5, "%s D %d: error %g", shapes[_i].method, d, err);

    /* After one value of the reference changes by 100, the error must exceed the limit. */
    cv[5] += 100;
    memcpy(vv + past * H * d, cv, n * sizeof *cv);
    ck_assert(!(worst_error(q, kk, vv, past + CHUNK, d, out) <= 2e-5));
    free(kk);
    free(vv);
    free(q);
    free(ck);
    free(cv);
    free(out);
    kit_close(&k);
}
END_TEST

/* Reading an F32 cache returns the bits that the clean passes appended, in order. */
START_TEST(clean_passes_are_stored)
{
    struct kit k;
    const int d = 64;
    const size_t n = (size_t)(CHUNK * H * d);
    float *out = malloc(n * sizeof *out), *kk = malloc(2 * n * sizeof *kk);

    kit_open(&k, "F32", d, 0, 0, false);
    for (int c = 0; c < 2; c++)
        for (int p = 0; p < 3; p++)
            run_pass(&k, c, p, p == 2, out);
    ck_assert_int_eq(read_tokens(k.cache, 0, kk, NULL), 2 * CHUNK);
    for (int c = 0; c < 2; c++) {
        float *want = normal(n, (uint32_t)(c * 100 + 2), 1);

        ck_assert_mem_eq(kk + (size_t)c * n, want, n * sizeof *want);
        free(want);
    }
    /* A second clean pass of a chunk overwrites the tokens that the first clean pass stored. */
    run_pass(&k, 1, 7, true, out);
    ck_assert_int_eq(read_tokens(k.cache, 0, kk, NULL), 2 * CHUNK);
    float *want = normal(n, 107, 1);
    ck_assert_mem_eq(kk + n, want, n * sizeof *want);
    free(want);
    free(out);
    free(kk);
    kit_close(&k);
}
END_TEST

START_TEST(same_bytes_for_any_thread_count)
{
    const int d = 64;
    const size_t n = (size_t)(CHUNK * H * d);
    float *first = malloc(n * sizeof *first), *out = malloc(n * sizeof *out);

    for (int threads = 1; threads <= 3; threads++) {
        struct kit k;

        set_threads(threads);
        kit_open(&k, "RTN_INT4", d, 0, 0, false);
        for (int c = 0; c < 4; c++)
            run_pass(&k, c, 0, true, out);
        if (threads == 1)
            memcpy(first, out, n * sizeof *out);
        ck_assert_mem_eq(first, out, n * sizeof *out);
        kit_close(&k);
    }
    free(first);
    free(out);
}
END_TEST

/* An INT4 chunk has one FP16 scale per channel and group of 16 tokens. The 45 tokens of a chunk
 * make 3 groups. */
START_TEST(bytes_are_what_the_format_says)
{
    struct kit k;
    struct kvr_cache_bytes b;
    struct kvr_mem_stats m;
    const int d = 64;
    float *out = malloc((size_t)(CHUNK * H * d) * sizeof *out);
    const size_t codes = (size_t)(CHUNK + 1) / 2 * H * d, steps = 3 * H * d * 2;

    kit_open(&k, "RTN_INT4", d, 6, 0, true);
    for (int c = 0; c < 5; c++)
        run_pass(&k, c, 0, true, out);
    kvr_cache_bytes(k.cache, &b);
    kvr_mem_stats(k.dev, &m);
    /* The window holds two chunks; older ones are evicted. */
    ck_assert_int_eq(b.tokens, 2 * CHUNK);
    ck_assert_uint_eq(b.bf16, 2 * 2 * 2 * CHUNK * H * d * 2u);
    ck_assert_uint_eq(b.nominal, 2 * 2 * 2 * (codes + steps));
    ck_assert_uint_eq(b.resident, b.nominal);
    ck_assert_uint_eq(m.live[KVR_MEM_KV] + m.live[KVR_MEM_META], b.resident);
    ck_assert_uint_eq(m.live[KVR_MEM_KV], b.resident_kv);
    kvr_cache_reset(k.cache);
    kvr_mem_stats(k.dev, &m);
    ck_assert_uint_eq(m.live[KVR_MEM_KV] + m.live[KVR_MEM_META], 0);
    free(out);
    kit_close(&k);
}
END_TEST

/* If any one allocation fails, the call returns an error and the cache is unchanged. */
START_TEST(failed_allocation_changes_nothing)
{
    struct kit k;
    const int d = 64;
    const size_t n = (size_t)(CHUNK * H * d);
    float *out = malloc(n * sizeof *out), *q = normal(n, 1, 1);
    int failures = 0;

    kit_open(&k, "RTN_INT2", d, 0, 0, false);
    run_pass(&k, 0, 0, true, out);
    for (uint64_t nth = 1;; nth++) {
        const struct kvr_pass pass = {
            .chunk = 1, .frame0 = FRAMES, .n_frames = FRAMES, .index = 0, .clean = true
        };
        struct kvr_mem_stats before, after;
        enum kvr_status st;

        ck_assert_int_eq(kvr_cache_begin_pass(k.cache, &pass), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(k.cache, 0, q, q), KVR_OK);
        kvr_mem_stats(k.dev, &before);
        kvr_mem_fail_after(k.dev, nth);
        st = kvr_cache_attend(k.cache, 0, q, out);
        kvr_mem_fail_after(k.dev, 0);
        kvr_mem_stats(k.dev, &after);
        ck_assert_int_eq(kvr_cache_end_pass(k.cache), KVR_OK);
        if (st == KVR_OK)
            break;
        failures++;
        ck_assert_int_eq(st, KVR_ENOMEM);
        ck_assert_uint_eq(before.live_total, after.live_total);
        ck_assert_int_eq(read_tokens(k.cache, 0, NULL, NULL), CHUNK);
    }
    ck_assert_int_ge(failures, 4); /* one or more for codes and for scales, of keys and of values */
    free(out);
    free(q);
    kit_close(&k);
}
END_TEST

/* A NaN key makes the output NaN, also through packed storage. */
START_TEST(nan_reaches_the_output)
{
    const char *const methods[] = { "F32", "BF16", "RTN_INT4", "RTN_INT2" };

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct kit k;
        const int d = 64;
        const size_t n = (size_t)(CHUNK * H * d);
        float *out = malloc(n * sizeof *out), *q = normal(n, 1, 1), *bad = normal(n, 1, 2);
        const struct kvr_pass
            a = { .chunk = 0, .frame0 = 0, .n_frames = FRAMES, .index = 0, .clean = true },
            b = { .chunk = 1, .frame0 = FRAMES, .n_frames = FRAMES, .index = 0, .clean = false };

        kit_open(&k, methods[i], d, 0, 0, false);
        bad[3] = NAN;
        ck_assert_int_eq(kvr_cache_begin_pass(k.cache, &a), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(k.cache, 0, bad, q), KVR_OK);
        ck_assert_int_eq(kvr_cache_attend(k.cache, 0, q, out), KVR_OK);
        ck_assert_int_eq(kvr_cache_end_pass(k.cache), KVR_OK);
        ck_assert_int_eq(kvr_cache_begin_pass(k.cache, &b), KVR_OK);
        ck_assert_int_eq(kvr_cache_append(k.cache, 0, q, q), KVR_OK);
        ck_assert_int_eq(kvr_cache_attend(k.cache, 0, q, out), KVR_OK);
        ck_assert_msg(isnan(out[0]), "%s lost a NaN", methods[i]);
        free(out);
        free(q);
        free(bad);
        kit_close(&k);
    }
}
END_TEST

static enum kvr_status decodes_nan(struct kvr_joint *j)
{
    (void)j;
    return kvr_fail(KVR_ENAN, "nan in k, token 0");
}

/* If a joint codec cannot decode, kvr_cache_read() returns the codec's status. */
START_TEST(read_returns_the_status_of_a_codec)
{
    struct kvr_joint joint = { .n_owners = 2, .read = decodes_nan };
    const size_t n = (size_t)(CHUNK * H * 64);
    float *out = malloc(n * sizeof *out);
    int64_t n_tok = 7;
    struct kit k;

    kit_open(&k, "F32", 64, 0, 0, false);
    run_pass(&k, 0, 0, true, out);
    k.cache->layer[0].seg[0].k.stage[0].joint = &joint;
    ck_assert_int_eq(kvr_cache_read(k.cache, 0, out, NULL, &n_tok), KVR_ENAN);
    ck_assert_int_eq(n_tok, 0);
    k.cache->layer[0].seg[0].k.stage[0].joint = NULL;
    ck_assert_int_eq(read_tokens(k.cache, 0, out, NULL), CHUNK);
    free(out);
    kit_close(&k);
}
END_TEST

START_TEST(impossible_shapes_are_refused)
{
    struct kit k;
    struct kvr_cache *c = NULL;
    const struct kvr_pass beyond = {
        .chunk = 12, .frame0 = 36, .n_frames = FRAMES, .index = 0, .clean = true
    };

    struct kvr_pass last = beyond;

    last.frame0 = INT32_MAX; /* frame0 + n_frames exceeds the range of int */
    kit_open(&k, "F32", 64, 0, 0, false);
    struct kvr_cache_shape s = k.shape;
    s.window_frames = 3;
    s.sink_frames = 1;
    ck_assert_int_eq(kvr_cache_open(&c, k.dev, k.scheme, &s, KVR_PATH_STAGED), KVR_EINVAL);
    s.window_frames = s.frames_per_chunk + 1;
    s.frames_per_chunk = INT32_MAX;
    ck_assert_int_eq(kvr_cache_open(&c, k.dev, k.scheme, &s, KVR_PATH_STAGED), KVR_EINVAL);
    s = k.shape;
    s.head_dim = 0;
    ck_assert_int_eq(kvr_cache_open(&c, k.dev, k.scheme, &s, KVR_PATH_STAGED), KVR_EINVAL);
    ck_assert_int_eq(kvr_cache_begin_pass(k.cache, &beyond), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "has room only for frames 0 to"));
    ck_assert_int_eq(kvr_cache_begin_pass(k.cache, &last), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "frames 2147483647 to 2147483649"));
    kit_close(&k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache");
    TCase *t = tcase_create("cache");
    SRunner *r;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, attention_is_softmax_over_what_is_read, 0,
                        (int)(sizeof shapes / sizeof *shapes));
    tcase_add_test(t, clean_passes_are_stored);
    tcase_add_test(t, same_bytes_for_any_thread_count);
    tcase_add_test(t, bytes_are_what_the_format_says);
    tcase_add_test(t, failed_allocation_changes_nothing);
    tcase_add_test(t, nan_reaches_the_output);
    tcase_add_test(t, read_returns_the_status_of_a_codec);
    tcase_add_test(t, impossible_shapes_are_refused);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
