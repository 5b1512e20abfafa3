/* test_as_shipped.c - a cache configured as in LongLive 2.0's code. Attention subtracts from each
 * key of the current chunk its mean over channels (`current=demean`), and every pass quantizes its
 * chunk (`commit=every_pass`). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/cache/layer.h"
#include "harness/core/rng.h"
#include "harness/workload/probe.h"
#include "tests/suite.h"

enum { S = 5, FRAMES = 2, H = 2, D = 64, CHUNKS = 3, PASSES = 3, T = S * FRAMES, N = T * H * D };

/* Draws the keys (what = 0), values (1) or queries (2) of a pass. They are rounded to BF16, so a
 * BF16 cache stores them exactly. */
static void draw(float *x, int chunk, int pass, int what)
{
    kvr_normal(x, N, 5, KVR_RNG_TEST, (uint32_t)(chunk * 16 + pass * 4 + what), 0, 0);
    for (int i = 0; i < N; i++) {
        /* Add one of 7 constants to all channels of a key, so that the means of keys differ. */
        if (what == 0)
            x[i] += (float)(i / D % 7) - 3;
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    }
}

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_cache *cache;
    float out[CHUNKS][PASSES][N];
    float seen[N]; /* keys that the observer saw last */
    /* number of coded segments that the observer saw last */
    int64_t coded;
};

static struct kit a, b;

static enum kvr_status look(void *ctx, const struct kvr_cache_view *view)
{
    struct kit *k = ctx;

    kvr_to_f32(k->seen, view->k, view->shape->exact, N);
    k->coded = view->past->n_coded;
    return KVR_OK;
}

/* `balanced` makes the channels of each query sum to 0. */
static void rollout(struct kit *k, const char *spec, const struct kvr_setting *set, int n_set,
                    enum kvr_backend backend, bool balanced)
{
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = FRAMES,
                                           .capacity_frames = CHUNKS * FRAMES,
                                           .exact = KVR_BF16 };
    static float x[3][N];
    float *on[4];

    ck_assert_int_eq(kvr_dev_open(&k->dev, backend), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&k->scheme, spec, set, n_set) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_cache_open(&k->cache, k->dev, k->scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    kvr_cache_observe(k->cache, look, k);
    struct kvr_buf buf = { 0 };
    ck_assert_int_eq(kvr_buf_alloc(&buf, k->dev, KVR_MEM_ACT, 4 * sizeof x[0]), KVR_OK);
    for (int i = 0; i < 4; i++)
        on[i] = (float *)buf.p + (size_t)i * N;
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * FRAMES,
                                           .n_frames = FRAMES,
                                           .index = p,
                                           .clean = p == PASSES - 1 };

            for (int i = 0; i < 3; i++)
                draw(x[i], c, p, i);
            for (int i = 0; balanced && i < N; i += 2)
                x[2][i + 1] = -x[2][i];
            for (int i = 0; i < 3; i++)
                ck_assert_int_eq(kvr_dev_put(k->dev, on[i], x[i], sizeof x[i]), KVR_OK);
            ck_assert_int_eq(kvr_cache_begin_pass(k->cache, &pass), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(k->cache, 0, on[0], on[1]), KVR_OK);
            ck_assert_msg(kvr_cache_attend(k->cache, 0, on[2], on[3]) == KVR_OK, "%s", kvr_error());
            ck_assert_int_eq(kvr_cache_end_pass(k->cache), KVR_OK);
            ck_assert_int_eq(kvr_dev_sync(k->dev), KVR_OK);
            ck_assert_int_eq(kvr_dev_get(k->dev, k->out[c][p], on[3], sizeof x[0]), KVR_OK);
        }
    kvr_buf_free(&buf);
    kvr_cache_close(&k->cache);
    kvr_scheme_close(&k->scheme);
    kvr_dev_close(&k->dev);
}

static const struct kvr_setting smooth[] = { { "current", "demean" },
                                             { "k.codec", "demean | raw(type=f32)" } };

/* Attention in double precision over keys without their means. Earlier chunks have the keys and
 * values of their last pass. */
static void attend_by_hand(int chunk, int pass, double *out)
{
    static float k[CHUNKS][N], v[CHUNKS][N], q[N];

    for (int c = 0; c <= chunk; c++) {
        draw(k[c], c, c < chunk ? PASSES - 1 : pass, 0);
        draw(v[c], c, c < chunk ? PASSES - 1 : pass, 1);
    }
    draw(q, chunk, pass, 2);
    for (int i = 0; i < T * H; i++) {
        double sum = 0, acc[D] = { 0 };

        for (int j = i % H; j < (chunk + 1) * T * H; j += H) {
            const float *key = k[j / (T * H)] + j % (T * H) * D;
            const float *value = v[j / (T * H)] + j % (T * H) * D;
            double mean = 0, score = 0, w;

            for (int d = 0; d < D; d++)
                mean += key[d] / (double)D;
            for (int d = 0; d < D; d++)
                score += q[i * D + d] * (key[d] - mean);
            w = exp(score / sqrt(D));
            sum += w;
            for (int d = 0; d < D; d++)
                acc[d] += w * value[d];
        }
        for (int d = 0; d < D; d++)
            out[i * D + d] = acc[d] / sum;
    }
}

static double apart(const float *x, const double *want)
{
    double off = 0, all = 0;

    for (int i = 0; i < N; i++) {
        off += (x[i] - want[i]) * (x[i] - want[i]);
        all += want[i] * want[i];
    }
    return sqrt(off / all);
}

/* Every pass subtracts from each key its mean. For keys of the current chunk, the result is rounded
 * to BF16. This rounding has an RMS relative error of 0.0017 and moves a score, whose standard
 * deviation is 1, by 0.0013 on average. Without the subtraction, the relative L2 error of the
 * outputs would exceed 0.1. */
START_TEST(softmax_reads_keys_without_their_means)
{
    static double want[N];

    rollout(&a, "BF16", smooth, 2, KVR_CPU, false);
    rollout(&b, "BF16", NULL, 0, KVR_CPU, false);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            attend_by_hand(c, p, want);
            ck_assert_msg(apart(a.out[c][p], want) <= 1e-2, "chunk %d pass %d: %g", c, p,
                          apart(a.out[c][p], want));
            ck_assert_msg(apart(b.out[c][p], want) > 0.1, "chunk %d pass %d: %g", c, p,
                          apart(b.out[c][p], want));
        }
}
END_TEST

/* Where a query's channels sum to 0, subtracting the mean from the keys changes its scores by
 * rounding errors only. */
START_TEST(a_balanced_query_sees_no_difference)
{
    static double want[N];

    rollout(&a, "BF16", smooth, 2, KVR_CPU, true);
    rollout(&b, "BF16", NULL, 0, KVR_CPU, true);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            for (int i = 0; i < N; i++)
                want[i] = b.out[c][p][i];
            ck_assert_msg(apart(a.out[c][p], want) <= 1e-2, "chunk %d pass %d: %g", c, p,
                          apart(a.out[c][p], want));
        }
}
END_TEST

/* The observer sees the keys as appended, with their means. */
START_TEST(an_observer_gets_keys_as_appended)
{
    float k[N];

    rollout(&a, "NVFP4_4OVER6@longlive", NULL, 0, KVR_CPU, false);
    draw(k, CHUNKS - 1, PASSES - 1, 0);
    ck_assert_mem_eq(a.seen, k, sizeof k);
}
END_TEST

/* Each pass overwrites the tokens that the previous pass of its chunk stored. The outputs equal
 * those of a cache that quantizes in the last pass only. */
START_TEST(the_last_pass_of_a_chunk_is_kept)
{
    const struct kvr_setting once = { "commit", "clean_pass" };

    rollout(&a, "NVFP4_4OVER6@longlive", NULL, 0, KVR_CPU, false);
    rollout(&b, "NVFP4_4OVER6@longlive", &once, 1, KVR_CPU, false);
    ck_assert_mem_eq(a.out, b.out, sizeof a.out);
    ck_assert_int_eq(b.coded, CHUNKS - 1);
    ck_assert_int_eq(a.coded, CHUNKS * PASSES - 1);
}
END_TEST

/* The backends add up a key's mean in different orders. An element of the key may then round to the
 * next BF16 number, at a relative distance of up to 2^-7. Tensor cores also round attention weights
 * to BF16. */
START_TEST(a_device_agrees)
{
    static double want[N];

    rollout(&a, "NVFP4_4OVER6@longlive", NULL, 0, KVR_CUDA, false);
    rollout(&b, "NVFP4_4OVER6@longlive", NULL, 0, KVR_CPU, false);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            for (int i = 0; i < N; i++)
                want[i] = b.out[c][p][i];
            ck_assert_msg(apart(a.out[c][p], want) <= 1e-2, "chunk %d pass %d: %g", c, p,
                          apart(a.out[c][p], want));
        }
}
END_TEST

/* The probe recomputes attention from the keys that the cache's attention read. Its outputs differ
 * from the cache's by a relative error of at most 1e-5, the limit for all methods
 * (tests/workload/test_probe.c). */
START_TEST(a_probe_reads_what_attention_reads)
{
    const struct kvr_probe_opts opts = { .n_passes = PASSES, .every = 1 };
    const struct kvr_cache_shape shape = { .n_layers = 1,
                                           .n_heads = H,
                                           .head_dim = D,
                                           .tokens_per_frame = S,
                                           .frames_per_chunk = FRAMES,
                                           .capacity_frames = CHUNKS * FRAMES,
                                           .exact = KVR_BF16 };
    static float x[3][N], out[N];
    struct kvr_probe *probe;

    ck_assert_int_eq(kvr_probe_open(&probe, &opts), KVR_OK);
    ck_assert_int_eq(kvr_dev_open(&a.dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_scheme_open(&a.scheme, "NVFP4_4OVER6@longlive", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&a.cache, a.dev, a.scheme, &shape, KVR_PATH_STAGED), KVR_OK);
    kvr_cache_observe(a.cache, kvr_probe_observe, probe);
    for (int c = 0; c < CHUNKS; c++)
        for (int p = 0; p < PASSES; p++) {
            const struct kvr_pass pass = { .chunk = c,
                                           .frame0 = c * FRAMES,
                                           .n_frames = FRAMES,
                                           .index = p,
                                           .clean = p == PASSES - 1 };

            for (int i = 0; i < 3; i++)
                draw(x[i], c, p, i);
            ck_assert_int_eq(kvr_cache_begin_pass(a.cache, &pass), KVR_OK);
            ck_assert_int_eq(kvr_cache_append(a.cache, 0, x[0], x[1]), KVR_OK);
            ck_assert_msg(kvr_cache_attend(a.cache, 0, x[2], out) == KVR_OK, "%s", kvr_error());
            ck_assert_int_eq(kvr_cache_end_pass(a.cache), KVR_OK);
        }
    ck_assert_msg(kvr_probe_residual(probe) <= 1e-5, "%g", kvr_probe_residual(probe));
    kvr_probe_close(&probe);
    kvr_cache_close(&a.cache);
    kvr_scheme_close(&a.scheme);
    kvr_dev_close(&a.dev);
}
END_TEST

START_TEST(study_versions_refuse_these_options)
{
    static const struct kvr_setting set[] = { { "current", "demean" }, { "commit", "every_pass" } };
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, "RTN_INT4@study", &set[_i], 1), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), set[_i].name));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("as shipped");
    TCase *tc = tcase_create("as shipped");

    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, softmax_reads_keys_without_their_means);
    tcase_add_test(tc, a_balanced_query_sees_no_difference);
    tcase_add_test(tc, an_observer_gets_keys_as_appended);
    tcase_add_test(tc, the_last_pass_of_a_chunk_is_kept);
    tcase_add_test(tc, a_probe_reads_what_attention_reads);
    tcase_add_test(tc, a_device_agrees);
    tcase_add_loop_test(tc, study_versions_refuse_these_options, 0, 2);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
